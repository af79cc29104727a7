#include "engine/api/inspection/lint.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include <fmt/format.h>

#include "engine/api/transforms/runtime.h"
#include "engine/eval/eval.h"
#include "engine/ir/builder.h"
#include "engine/ir/primitive.h"
#include "engine/ir/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/passes/pass.h"
#include "engine/transform/transforms.h"

namespace lockstep::api {

namespace {

using ir::Equation;
using ir::ReferenceArray;
using ir::Var;

constexpr std::int64_t samples = 1024;
constexpr std::size_t most_cone_equations = 64;
const Shape sample_shape{samples};

/// Ops that only move elements, or join elements that may as well be equal: on samples, the identity.
bool keeps_elements(const ir::Primitive& op) {
  namespace all = ops::primitives;
  const bool joins =
      &op == &all::reduce_sum() || &op == &all::reduce_max() || &op == &all::reduce_min() || &op == &all::psum();
  const bool moves = ir::moves_one(op.traits) || op.traits.moves == ir::Moves::apart;
  return joins || (moves && !op.traits.pointwise);  // stop_gradient has a derivative of its own
}

ArrayType sample_type(const ArrayType& type) { return {type.dtype, sample_shape, {}}; }

/// The element-wise part of a function that a value is computed by, for one element: on vectors of samples. What else it
/// depends on, and what is farther away than the nearest equations, are inputs.
class Cone {
 public:
  Cone(const ir::Function& function, const std::map<Var, const Equation*>& definitions, Var root)
      : function_(function), definitions_(definitions) {
    choose_nearest(root);
    visit(root);
    std::vector<Var> outputs;
    for (const auto& [equation, var] : equations_) outputs.push_back(var);
    sampled_ = builder_.finish(std::move(outputs));
  }

  /// Its inputs are the leaves, its outputs the results of the equations in order, the root's last.
  const ir::FunctionPtr& sampled_function() const { return sampled_; }
  const std::vector<Var>& leaves() const { return leaves_; }
  /// Whether a leaf is computed element by element, too.
  bool was_cut(Var leaf) const {
    const Equation* equation = definition(leaf);
    return equation != nullptr && is_element_wise(*equation);
  }
  /// Values worth a try: those at which functions often have poles or kinks, and the constants.
  const std::set<double>& points() const { return points_; }
  const Equation& equation(std::size_t i) const { return *equations_[i].first; }
  std::size_t size() const { return equations_.size(); }

 private:
  /// What defines a value, but for ops that only move elements; null for an input.
  const Equation* definition(Var v) const {
    const auto found = definitions_.find(v);
    if (found == definitions_.end()) return nullptr;
    const Equation* equation = found->second;
    return keeps_elements(*equation->primitive) ? definition(equation->inputs[0]) : equation;
  }

  bool is_element_wise(const Equation& equation) const {
    const auto is_key = [&](Var x) { return function_.type(x).dtype == DType::key; };
    return equation.primitive->traits.pointwise && std::ranges::none_of(equation.inputs, is_key);
  }

  /// A guard stands next to what it guards: it must not be left out for what is far away.
  void choose_nearest(Var root) {
    std::deque<Var> next = {root};
    for (; !next.empty() && chosen_.size() < most_cone_equations; next.pop_front()) {
      const Equation* equation = choose(next.front(), next);
      // Without the predicate it would guard nothing.
      if (equation != nullptr && equation->primitive == &ops::primitives::select()) choose(equation->inputs[0], next);
    }
  }

  /// The equation of a value, where it is one to choose; its operands are next.
  const Equation* choose(Var v, std::deque<Var>& next) {
    const Equation* equation = definition(v);
    if (equation == nullptr || !is_element_wise(*equation) || !chosen_.insert(equation).second) return nullptr;
    next.insert(next.end(), equation->inputs.begin(), equation->inputs.end());
    return equation;
  }

  Var visit(Var v) {
    if (const auto known = vars_.find(v); known != vars_.end()) return known->second;
    const Var var = visit_new(v);
    vars_.emplace(v, var);
    return var;
  }

  Var visit_new(Var v) {
    const auto found = definitions_.find(v);
    if (found == definitions_.end()) return leaf(v);
    const Equation& equation = *found->second;
    if (equation.primitive == &ops::primitives::full()) return constant(equation);
    if (keeps_elements(*equation.primitive)) return visit(equation.inputs[0]);
    if (!chosen_.contains(&equation)) return leaf(v);
    std::vector<Var> operands;
    for (const Var operand : equation.inputs) operands.push_back(visit(operand));
    const Var result = builder_.apply(*equation.primitive, operands, equation.attrs)[0];
    equations_.emplace_back(&equation, result);
    return result;
  }

  Var leaf(Var v) {
    leaves_.push_back(v);
    return builder_.input(sample_type(function_.type(v)));
  }

  Var constant(const Equation& equation) {
    if (const auto* value = std::get_if<double>(&equation.attrs.at("value"))) points_.insert({*value, -*value});
    return builder_.apply(*equation.primitive, {}, equation.attrs.with("shape", sample_shape.to_vector()))[0];
  }

  const ir::Function& function_;
  const std::map<Var, const Equation*>& definitions_;
  ir::Builder builder_;
  std::map<Var, Var> vars_;
  std::vector<Var> leaves_;
  std::vector<std::pair<const Equation*, Var>> equations_;
  std::set<double> points_ = {0, 1, -1, 0.5, -0.5, 2};
  std::set<const Equation*> chosen_;
  ir::FunctionPtr sampled_;
};

/// Which of each leaf's values sample number `i` has: all combinations where they are few, else mixed ones.
std::vector<std::size_t> choices(std::size_t i, const std::vector<std::vector<double>>& values) {
  double combinations = 1;
  for (const std::vector<double>& each : values) combinations *= static_cast<double>(each.size());
  std::vector<std::size_t> chosen;
  for (std::size_t leaf = 0; leaf < values.size(); ++leaf) {
    if (combinations <= static_cast<double>(samples)) {
      chosen.push_back(i % values[leaf].size());
      i /= values[leaf].size();
    } else {
      std::uint64_t h = (i + 1) * 0x9E3779B97F4A7C15ULL + (leaf + 1) * 0xBF58476D1CE4E5B9ULL;
      h = (h ^ (h >> 31)) * 0x94D049BB133111EBULL;
      chosen.push_back(static_cast<std::size_t>(h >> 33) % values[leaf].size());
    }
  }
  return chosen;
}

std::vector<ReferenceArray> sample_values(const ir::Function& function,
                                          const std::vector<std::vector<double>>& values) {
  const std::vector<ArrayType> types = function.input_types();
  std::vector<ReferenceArray> arrays;
  for (const ArrayType& type : types) arrays.push_back(ir::reference_zeros(type));
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
    const std::vector<std::size_t> chosen = choices(i, values);
    for (std::size_t leaf = 0; leaf < types.size(); ++leaf) {
      const double value = values[leaf][chosen[leaf]];
      if (is_float(types[leaf].dtype)) {
        arrays[leaf].floats()[i] = value;
      } else {
        const bool is_bool = types[leaf].dtype == DType::bool_;
        arrays[leaf].integers()[i] = is_bool ? value > 0 : static_cast<std::int64_t>(std::abs(value));
      }
    }
  }
  return arrays;
}

/// Some finite values of an array, the least and the largest among them; 0 where there is none.
std::vector<double> spread_values(const ReferenceArray& x) {
  constexpr std::size_t most = 12;
  std::set<double> distinct;
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
    const double value = is_float(x.type.dtype) ? x.floats()[i] : static_cast<double>(x.integers()[i]);
    if (std::isfinite(value)) distinct.insert(value);
  }
  if (distinct.empty()) return {0};
  const std::vector<double> all(distinct.begin(), distinct.end());
  if (all.size() <= most) return all;
  std::vector<double> some;
  for (std::size_t k = 0; k < most; ++k) some.push_back(all[k * (all.size() - 1) / (most - 1)]);
  return some;
}

std::vector<ReferenceArray> evaluated(const ir::Function& function, const std::vector<ReferenceArray>& arguments) {
  std::vector<eval::HostArray> inputs;
  for (const ReferenceArray& argument : arguments) {
    inputs.push_back(eval::host_array(argument.type, ir::reference_to_bytes(argument), plain_backend()));
  }
  std::vector<ReferenceArray> results;
  for (const eval::HostArray& output : eval::eval(function, inputs, plain_backend())) {
    results.push_back(ir::reference_from_bytes(output.type, eval::host_bytes(output)));
  }
  return results;
}

/// The one output of `f` and, for each active input, its derivative, element by element.
std::vector<ReferenceArray> with_derivatives(const ir::FunctionPtr& f, const std::vector<bool>& active,
                                             std::vector<ReferenceArray> arguments) {
  ReferenceArray ones = ir::reference_zeros(f->output_types()[0]);
  std::ranges::fill(ones.floats(), 1);
  arguments.push_back(std::move(ones));
  return evaluated(*transform::vjp(f, active), arguments);
}

ir::FunctionPtr with_outputs(const ir::Function& f, std::vector<Var> outputs) {
  return std::make_shared<const ir::Function>(f.axes(), f.types(), f.inputs(), f.equations(), std::move(outputs));
}

class Linter {
 public:
  /// `active`: whether each input is differentiated.
  Linter(const ir::Function& function, const std::vector<bool>& active) : function_(function) {
    for (std::size_t i = 0; i < active.size(); ++i) {
      const Var input = function.inputs()[i];
      if (active[i] && is_float(function.type(input).dtype)) active_.insert(input);
    }
    for (const Equation& equation : function.equations()) {
      const bool flows = equation.primitive->derivative.kind != ir::Derivative::Kind::zero;
      const bool depends = flows && std::ranges::any_of(equation.inputs, [&](Var v) { return active_.contains(v); });
      for (const Var v : equation.outputs) {
        definitions_.emplace(v, &equation);
        if (depends && is_float(function.type(v).dtype)) active_.insert(v);
      }
    }
  }

  void run(std::vector<std::string>& texts) {
    for (const Equation& equation : function_.equations()) {
      // Functions of the library guard what they select; samples do not know what they guard it by.
      if (equation.primitive == &ops::primitives::select() && !equation.provenance.backward &&
          !equation.provenance.at.in_library_ && active_.contains(equation.outputs[0])) {
        check(equation, texts);
      }
      for (const ir::FunctionPtr& body : ir::sub_functions(equation.attrs)) {
        Linter(*body, active_inputs(equation, *body)).run(texts);
      }
    }
  }

 private:
  /// Of a sub-function: those whose operands are, and all where what goes around in a loop may become so.
  std::vector<bool> active_inputs(const Equation& equation, const ir::Function& body) const {
    const auto is_active = [&](Var v) { return active_.contains(v); };
    std::vector<bool> active(body.inputs().size(), std::ranges::any_of(equation.inputs, is_active));
    if (equation.primitive->traits.loop || equation.inputs.size() != active.size()) return active;
    std::transform(equation.inputs.begin(), equation.inputs.end(), active.begin(), is_active);
    return active;
  }

  /// Values worth a try. What was cut off for being far away has those that it takes at such values: a count is not
  /// negative there.
  std::vector<std::vector<double>> values_of_leaves(const Cone& cone) {
    std::vector<std::vector<double>> values;
    for (const Var leaf : cone.leaves()) {
      values.push_back(cone.was_cut(leaf) ? values_taken(leaf)
                                          : std::vector<double>(cone.points().begin(), cone.points().end()));
    }
    return values;
  }

  const std::vector<double>& values_taken(Var v) {
    const auto [place, is_new] = taken_.try_emplace(v);
    if (is_new) {
      const Cone cone(function_, definitions_, v);
      const ir::Function& f = *cone.sampled_function();
      const auto leaves = sample_values(f, values_of_leaves(cone));
      place->second = spread_values(evaluated(*with_outputs(f, {f.outputs().back()}), leaves)[0]);
    }
    return place->second;
  }

  void check(const Equation& select, std::vector<std::string>& texts) {
    const Cone cone(function_, definitions_, select.outputs[0]);
    const ir::Function& f = *cone.sampled_function();
    std::vector<bool> active;
    for (const Var leaf : cone.leaves()) {
      if (!is_float(function_.type(leaf).dtype) && is_inexact(function_.type(leaf).dtype)) return;
      active.push_back(active_.contains(leaf));
    }
    if (std::ranges::none_of(active, [](bool is) { return is; })) return;
    const std::vector<ReferenceArray> leaves = sample_values(f, values_of_leaves(cone));
    const std::vector<ReferenceArray> found = with_derivatives(with_outputs(f, {f.outputs().back()}), active, leaves);
    for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
      const auto is_nan = [&](const ReferenceArray& derivative) { return std::isnan(derivative.floats()[i]); };
      if (!std::isfinite(found[0].floats()[i]) || std::none_of(found.begin() + 1, found.end(), is_nan)) continue;
      if (report(cone, leaves, i, select, texts)) return;
    }
  }

  /// Names the first op that is given finite operands and has no finite value or derivative there.
  bool report(const Cone& cone, const std::vector<ReferenceArray>& leaves, std::size_t sample, const Equation& select,
              std::vector<std::string>& texts) {
    const ir::Function& f = *cone.sampled_function();
    for (std::size_t e = 0; e < cone.size(); ++e) {
      const Equation& equation = cone.equation(e);
      if (equation.primitive == &ops::primitives::select() || !is_float(f.type(f.outputs()[e]).dtype)) continue;
      const std::vector<ReferenceArray> operands = operands_of(f, e, leaves);
      if (!has_pole(equation, operands, sample)) continue;
      if (reported_.insert(&equation).second) texts.push_back(text(select, equation, operands, sample));
      return true;
    }
    return false;
  }

  /// What the op of output `e` is given.
  static std::vector<ReferenceArray> operands_of(const ir::Function& f, std::size_t e,
                                                 const std::vector<ReferenceArray>& leaves) {
    for (const Equation& equation : f.equations()) {
      if (equation.outputs[0] == f.outputs()[e]) return evaluated(*with_outputs(f, equation.inputs), leaves);
    }
    return {};
  }

  static bool has_pole(const Equation& equation, const std::vector<ReferenceArray>& operands, std::size_t sample) {
    ir::Builder builder;
    std::vector<Var> inputs;
    std::vector<bool> active;
    for (const ReferenceArray& operand : operands) {
      inputs.push_back(builder.input(operand.type));
      active.push_back(is_float(operand.type.dtype));
      if (active.back() && !std::isfinite(operand.floats()[sample])) return false;
    }
    if (std::ranges::none_of(active, [](bool is) { return is; })) return false;
    const ir::FunctionPtr alone = builder.finish(builder.apply(*equation.primitive, inputs, equation.attrs));
    const std::vector<ReferenceArray> found = with_derivatives(alone, active, operands);
    return std::ranges::any_of(found, [&](const ReferenceArray& x) { return !std::isfinite(x.floats()[sample]); });
  }

  static std::string text(const Equation& select, const Equation& equation, const std::vector<ReferenceArray>& operands,
                          std::size_t sample) {
    std::string given;
    for (const ReferenceArray& operand : operands) {
      if (!is_float(operand.type.dtype)) continue;
      given += fmt::format("{}{}", given.empty() ? "" : " and ", operand.floats()[sample]);
    }
    const std::string& op = equation.primitive->name;
    const auto& scope = select.provenance.scope;
    const std::string layer = scope == nullptr || scope->empty() ? "" : fmt::format(" in layer '{}'", *scope);
    return fmt::format(
        "select{}: {} of {} has no finite value or derivative; where a select does not take it, its gradient is 0 * "
        "infinity = "
        "NaN although the value is finite. Give {} a harmless operand there: where(c, {}(where(c, x, 1)), y) instead "
        "of where(c, {}(x), y)",
        layer, op, given, op, op, op);
  }

  const ir::Function& function_;
  std::map<Var, const Equation*> definitions_;
  std::set<Var> active_;
  std::map<Var, std::vector<double>> taken_;
  std::set<const Equation*> reported_;
};

}  // namespace

std::vector<std::string> lint(const ir::FunctionPtr& function, std::size_t active) {
  std::vector<std::string> texts;
  // What a function with a rule of its own gives is seen as what it computes: a variance is not negative.
  const ir::FunctionPtr inlined = passes::inline_calls(function);
  Linter(*inlined, std::vector<bool>(active, true)).run(texts);
  return texts;
}

}  // namespace lockstep::api
