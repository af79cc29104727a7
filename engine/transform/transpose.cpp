#include <algorithm>
#include <utility>

#include <lockstep/error.h>

#include "engine/ops/constants/zeros.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/replay.h"
#include "engine/transform/reverse.h"
#include "engine/transform/transforms.h"

namespace lockstep::transform {

namespace {

using ir::Builder;
using ir::Derivative;
using ir::Equation;
using ir::Function;
using ir::Tangent;
using ir::Value;
using ir::Var;

/// Runs the equations of a linear function backwards, cotangents beside the values.
class Backward {
 public:
  Backward(Builder& builder, const Function& linear, std::size_t residuals)
      : builder_(builder),
        f_(linear),
        residuals_(residuals),
        linear_(dependent()),
        zero_(f_.types().size()),
        pending_(f_.types().size()),
        value_(linear),
        cotangent_(linear) {}

  std::vector<Var> run(std::span<const Var> residuals, std::span<const std::optional<Var>> cotangents) {
    std::vector<Var> wanted;
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      if (cotangents[i] && linear_[f_.outputs()[i].id]) wanted.push_back(f_.outputs()[i]);
    }
    const std::vector<bool> needed = needed_for(f_, wanted);
    for (std::size_t i = 0; i < residuals.size(); ++i) value_.set(f_.inputs()[i], residuals[i]);
    emit_constants(needed);
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      if (cotangents[i]) accumulate(f_.outputs()[i], *cotangents[i], "transpose");
    }
    for (std::size_t i = f_.equations().size(); i-- > 0;) {
      if (needed[i] && is_linear(f_.equations()[i])) transpose_equation(f_.equations()[i]);
    }
    builder_.set_provenance({nullptr, true});
    std::vector<Var> results;
    for (std::size_t i = residuals_; i < f_.inputs().size(); ++i) results.push_back(result(f_.inputs()[i]));
    return results;
  }

 private:
  std::vector<bool> dependent() const {
    std::vector<bool> marked(f_.types().size());
    for (std::size_t i = residuals_; i < f_.inputs().size(); ++i) marked[f_.inputs()[i].id] = true;
    return depends_on(f_, std::move(marked));
  }

  bool is_linear(const Equation& equation) const {
    return std::ranges::any_of(equation.inputs, [&](Var v) { return linear_[v.id]; });
  }

  /// Copies what does not depend on the linear inputs, and notes which of it is known to be zero.
  void emit_constants(const std::vector<bool>& needed) {
    std::vector<bool> copied(needed.size());
    for (std::size_t i = 0; i < needed.size(); ++i) {
      const Equation& equation = f_.equations()[i];
      copied[i] = needed[i] && !is_linear(equation);
      if (copied[i] && gives_zero(equation)) {
        for (const Var v : equation.outputs) zero_[v.id] = true;
      }
    }
    emit_marked(builder_, f_, copied, value_);
  }

  bool gives_zero(const Equation& equation) const {
    if (ops::writes_zeros(equation)) return true;
    if (equation.primitive->derivative.kind != Derivative::Kind::linear || equation.inputs.empty()) return false;
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
      if (linear_in(equation.primitive->derivative, i) && !zero_[equation.inputs[i].id]) return false;
    }
    return true;
  }

  /// Throws where the equation is not linear in the operands that depend on the linear inputs.
  void check_linear(const Equation& equation) const {
    const Derivative& derivative = equation.primitive->derivative;
    if (derivative.kind == Derivative::Kind::joint && derivative.transpose) return;  // checked in its sub-functions
    std::size_t dependent = 0;
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
      const Var v = equation.inputs[i];
      dependent += linear_[v.id] ? 1 : 0;
      if (linear_[v.id] && !linear_in(derivative, i)) {
        throw TraceError("transpose: " + describe(equation) + " is not linear in operand " + std::to_string(i) +
                         ", which depends on the inputs to transpose; only linear functions can be transposed");
      }
      if (!linear_[v.id] && derivative.kind == Derivative::Kind::linear && linear_in(derivative, i) && !zero_[v.id]) {
        throw TraceError("transpose: " + describe(equation) + " joins operand " + std::to_string(i) +
                         ", which does not depend on the inputs to transpose and is not a constant zero; the function "
                         "is affine, and only linear functions can be transposed");
      }
    }
    if (derivative.kind != Derivative::Kind::linear && dependent > 1) {
      throw TraceError("transpose: " + describe(equation) + " is not linear: " + std::to_string(dependent) +
                       " of its operands depend on the inputs to transpose; only linear functions can be transposed");
    }
    if (!derivative.transpose) {
      throw TraceError("transpose: " + describe(equation) +
                       " has no transpose, so reverse mode cannot pass it; put "
                       "stop_gradient on its operands or use jvp");
    }
  }

  void transpose_equation(const Equation& equation) {
    for (const Var v : equation.outputs) reduce_pending(v);
    if (std::ranges::none_of(equation.outputs, [&](Var v) { return cotangent_.has(v); })) return;
    check_linear(equation);
    builder_.set_provenance({equation.provenance.scope, true, equation.provenance.at});
    if (equation.primitive == &ops::primitives::pvary()) {
      return add_pending(equation.inputs[0], AxisSet(equation.attrs.get<std::vector<std::string>>("axes")),
                         *cotangent_.find(equation.outputs[0]));
    }
    std::vector<Tangent> inputs, cotangents;
    std::vector<ArrayType> input_types, output_types;
    for (const Var v : equation.inputs) {
      inputs.push_back(linear_[v.id] ? Tangent() : Tangent(Value(builder_, value_.at(v))));
      input_types.push_back(f_.type(v));
    }
    for (const Var v : equation.outputs) {
      const auto cotangent = cotangent_.find(v);
      cotangents.push_back(cotangent ? Tangent(Value(builder_, *cotangent)) : Tangent());
      output_types.push_back(f_.type(v));
    }
    const std::vector<Tangent> results = equation.primitive->derivative.transpose(
        {builder_, equation.attrs, inputs, input_types, output_types, cotangents, &transforms()});
    if (results.size() != equation.inputs.size()) {
      throw IrError("transpose: the rule of " + describe(equation) + " gave " + std::to_string(results.size()) +
                    " cotangents for " + std::to_string(equation.inputs.size()) + " operands");
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i] && linear_[equation.inputs[i].id]) {
        accumulate(equation.inputs[i], results[i]->var(), describe(equation));
      }
    }
  }

  void accumulate(Var v, Var cotangent, const std::string& op) {
    const Value term(builder_, as_type(builder_, cotangent, f_.type(v), op));
    const auto sum = cotangent_.find(v);
    cotangent_.set(v, sum ? ops::add(Value(builder_, *sum), term).var() : term.var());
  }

  /// The transpose of a pvary is a psum, which is linear: what is used many times is reduced once, when all uses are met.
  void add_pending(Var v, const AxisSet& axes, Var cotangent) {
    const Var term = builder_.pvary(cotangent, axes.without(builder_.type(cotangent).varying));
    for (auto& [along, sum] : pending_[v.id]) {
      if (along != axes) continue;
      sum = ops::add(Value(builder_, sum), Value(builder_, term)).var();
      return;
    }
    pending_[v.id].emplace_back(axes, term);
  }

  void reduce_pending(Var v) {
    const auto pending = std::exchange(pending_[v.id], {});
    for (const auto& [axes, sum] : pending) {
      accumulate(v, ops::psum(Value(builder_, sum), axes).var(), ops::primitives::psum().name);
    }
  }

  Var result(Var input) {
    reduce_pending(input);
    const auto cotangent = cotangent_.find(input);
    return cotangent ? *cotangent : emit_zeros(builder_, f_.type(input));
  }

  Builder& builder_;
  const Function& f_;
  std::size_t residuals_;
  std::vector<bool> linear_;                                   // per var: depends on the linear inputs
  std::vector<bool> zero_;                                     // per var: known to be zero
  std::vector<std::vector<std::pair<AxisSet, Var>>> pending_;  // per var: sums that are to be reduced along axes
  VarMap value_;
  VarMap cotangent_;
};

}  // namespace

std::vector<Var> emit_transpose(Builder& builder, const Function& linear, std::span<const Var> residuals,
                                std::span<const std::optional<Var>> cotangents) {
  return Backward(builder, linear, residuals.size()).run(residuals, cotangents);
}

FunctionPtr transpose(const FunctionPtr& linear, int residuals) {
  const auto count = static_cast<std::size_t>(residuals);
  if (residuals < 0 || count > linear->inputs().size()) {
    throw ValueError("transpose: " + std::to_string(residuals) + " residuals for a function of " +
                     std::to_string(linear->inputs().size()) + " inputs");
  }
  Builder builder(linear->axes());
  std::vector<Var> residual_vars;
  for (std::size_t i = 0; i < count; ++i) residual_vars.push_back(builder.input(linear->type(linear->inputs()[i])));
  std::vector<std::optional<Var>> cotangents;
  for (const Var v : linear->outputs()) cotangents.emplace_back(builder.input(linear->type(v)));
  return builder.finish(emit_transpose(builder, *linear, residual_vars, cotangents));
}

}  // namespace lockstep::transform
