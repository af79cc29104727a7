#include <algorithm>
#include <utility>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops::control_flow {

namespace {

using ir::Builder;
using ir::Tangent;
using ir::WhileLoop;

[[noreturn]] void refuse_reverse() {
  throw TraceError(
      "while_loop: reverse mode needs every iteration's values, and how many there will be is not known before it "
      "runs; "
      "expected a loop of a known number of iterations; instead write it as a scan (or fori_loop with static bounds), "
      "use forward mode (jvp, linearize, jacfwd), or put stop_gradient on what it starts from");
}

std::vector<Value> bind_while(Builder& builder, const WhileLoop& loop, std::span<const Value> operands) {
  return sub_function::apply_to(builder, primitives::while_loop(), operands, loop.attrs());
}

}  // namespace

ir::JointTangents while_loop_tangents(const ir::JvpContext& context) {
  WhileLoop loop = WhileLoop::of(context.attrs);
  const std::size_t carries = loop.carries(), first = loop.cond_consts + loop.body_consts;
  std::vector<bool> active;  // per input of the body
  for (std::size_t i = loop.cond_consts; i < context.inputs.size(); ++i) {
    active.push_back(context.tangents[i].has_value());
  }
  ir::Differentiated d;
  for (bool changed = true; changed;) {
    const std::vector<bool> forced(active.begin() + static_cast<std::ptrdiff_t>(loop.body_consts), active.end());
    d = context.transforms->jvp(loop.body, active, forced);
    changed = d.active != forced;
    std::copy(d.active.begin(), d.active.end(), active.begin() + static_cast<std::ptrdiff_t>(loop.body_consts));
  }
  std::vector<Value> operands(context.inputs.begin(), context.inputs.begin() + static_cast<std::ptrdiff_t>(first));
  std::vector<Value> start(context.inputs.begin() + static_cast<std::ptrdiff_t>(first), context.inputs.end());
  const std::size_t inputs = loop.body_consts + carries;
  Places consts = places(0, loop.body_consts), carried = places(loop.body_consts, carries);
  std::vector<ArrayType> cond_types = loop.cond->input_types();
  for (std::size_t i = 0, next = inputs; i < inputs; ++i) {
    if (!active[i]) continue;
    const Tangent& given = context.tangents[loop.cond_consts + i];
    const ArrayType& type = context.inputs[loop.cond_consts + i].type();
    const bool is_const = i < loop.body_consts;
    (is_const ? consts : carried).push_back(next++);
    (is_const ? operands : start).push_back(given ? *given : zeros_of(context.builder, type));
    if (!is_const) cond_types.push_back(type);
  }
  operands.insert(operands.end(), start.begin(), start.end());
  const std::size_t cond_inputs = loop.cond->inputs().size();
  loop.cond = write(loop.cond->axes(), cond_types, [&](Builder& builder, std::span<const Value> in) {
    return call(builder, *loop.cond, in.first(cond_inputs));
  });
  loop.body = pick(*d.function, joined(consts, carried), places(0, d.function->outputs().size()));
  loop.body_consts = consts.size();
  const std::vector<Value> results = bind_while(context.builder, loop, operands);
  ir::JointTangents joint;
  joint.tangents.resize(carries);
  for (std::size_t k = 0, next = carries; k < carries; ++k) {
    joint.outputs.push_back(results[k]);
    if (d.active[k]) joint.tangents[k] = results[next++];
  }
  return joint;
}

// ---- split

namespace {

/// A loop cut in two: the loop over what is known, and the loop over everything. What is unknown reads known values of each
/// iteration, and nobody can keep these without knowing how many there will be: so the second loop computes them again.
class WhileSplit {
 public:
  explicit WhileSplit(const ir::SplitContext& context)
      : context_(context), loop_(WhileLoop::of(context.attrs)), unknown_(context.unknown) {
    for (bool changed = true; changed;) {
      const std::vector<bool> carries(unknown_.begin() + first_carry(), unknown_.end());
      const std::vector<bool> inputs(unknown_.begin() + static_cast<std::ptrdiff_t>(loop_.cond_consts), unknown_.end());
      parts_ = context.transforms->partition(loop_.body, inputs, carries);
      changed = parts_.unknown_outputs != carries;
      std::copy(parts_.unknown_outputs.begin(), parts_.unknown_outputs.end(), unknown_.begin() + first_carry());
    }
  }

  ir::SplitResult run() const {
    if (predicate_is_unknown()) {
      return {bind_while(context_.builder, loop_, context_.inputs), std::vector<bool>(loop_.carries(), true)};
    }
    const std::vector<Value> known = run_known();
    const std::vector<Value> all = run_again();
    ir::SplitResult result{{}, parts_.unknown_outputs};
    std::size_t next_known = 0;
    for (std::size_t k = 0; k < all.size(); ++k) {
      result.outputs.push_back(result.unknown[k] ? all[k] : known[next_known++]);
    }
    return result;
  }

 private:
  std::ptrdiff_t first_carry() const { return static_cast<std::ptrdiff_t>(loop_.cond_consts + loop_.body_consts); }
  /// The operand that is input i of cond.
  std::size_t operand_of_cond(std::size_t i) const { return i < loop_.cond_consts ? i : i + loop_.body_consts; }

  bool predicate_is_unknown() const {
    const std::vector<bool> read = used_inputs(*loop_.cond);
    bool unknown = std::ranges::find(parts_.unknown_outputs, false) == parts_.unknown_outputs.end();
    for (std::size_t i = 0; i < read.size(); ++i) unknown = unknown || (read[i] && unknown_[operand_of_cond(i)]);
    return unknown;
  }

  std::vector<Value> run_known() const {
    Places of_cond;
    for (std::size_t i = 0; i < loop_.cond->inputs().size(); ++i) {
      if (!unknown_[operand_of_cond(i)]) of_cond.push_back(i);
    }
    WhileLoop known = loop_;
    known.cond = pick(*loop_.cond, of_cond, {0});
    const std::size_t results = parts_.known->outputs().size() - static_cast<std::size_t>(parts_.residuals);
    known.body = pick(*parts_.known, places(0, parts_.known->inputs().size()), places(0, results));
    known.cond_consts = of_cond.size() - results;
    known.body_consts = known.body->inputs().size() - results;
    return bind_while(context_.builder, known, at(context_.inputs, places_of(unknown_, false)));
  }

  /// Effects of what is known have happened in the first loop.
  std::vector<Value> run_again() const {
    const auto silent = [](const ir::Function& f) {
      return pick(f, places(0, f.inputs().size()), places(0, f.outputs().size()), Effects::left_out);
    };
    const FunctionPtr known = silent(*parts_.known);
    const std::vector<bool> unknown(unknown_.begin() + static_cast<std::ptrdiff_t>(loop_.cond_consts), unknown_.end());
    WhileLoop again = loop_;
    again.cond = silent(*loop_.cond);
    again.body = write(loop_.body->axes(), loop_.body->input_types(), [&](Builder& builder, std::span<const Value> in) {
      const std::vector<Value> early = call(builder, *known, at(in, places_of(unknown, false)));
      const auto residuals = early.end() - parts_.residuals;
      std::vector<Value> late(residuals, early.end());
      for (const std::size_t i : places_of(unknown, true)) late.push_back(in[i]);
      late = call(builder, *parts_.unknown, late);
      std::vector<Value> results;
      std::size_t next_early = 0, next_late = 0;
      for (const bool is_late : parts_.unknown_outputs) {
        results.push_back(is_late ? late[next_late++] : early[next_early++]);
      }
      return results;
    });
    return bind_while(context_.builder, again, context_.inputs);
  }

  const ir::SplitContext& context_;
  WhileLoop loop_;
  std::vector<bool> unknown_;  // per operand
  ir::Partitioned parts_;      // of the body
};

}  // namespace

ir::SplitResult split_while_loop(const ir::SplitContext& context) { return WhileSplit(context).run(); }

std::vector<Tangent> transpose_while_loop(const ir::TransposeContext&) { refuse_reverse(); }

// ---- batch

namespace {

/// A loop over a batch: which carries have it, and whether each example leaves at its own time.
class WhileBatch {
 public:
  explicit WhileBatch(const ir::BatchContext& context)
      : context_(context), loop_(WhileLoop::of(context.attrs)), batched_(context.batched) {
    for (bool changed = true; changed;) {
      const std::vector<bool> carries = of_carries();
      body_ = vmap(loop_.body, places(loop_.cond_consts, loop_.body_consts), carries);
      cond_ = vmap(loop_.cond, places(0, loop_.cond_consts), {false});
      changed = false;
      for (std::size_t i = 0; i < carries.size(); ++i) {
        const bool now = body_.batched[i] || cond_.batched[0];
        changed = changed || now != carries[i];
        batched_[first_carry() + i] = now;
      }
    }
  }

  std::vector<Value> run() const {
    std::vector<Value> operands;
    for (std::size_t i = 0; i < context_.inputs.size(); ++i) {
      const bool broadcast = batched_[i] && !context_.batched[i];
      operands.push_back(broadcast ? broadcast_leading(context_.inputs[i], context_.size) : context_.inputs[i]);
    }
    std::vector<Value> results;
    if (cond_.batched[0]) {
      results = run_each(operands);
    } else {
      results = bind_while(context_.builder, {cond_.function, body_.function, loop_.cond_consts, loop_.body_consts},
                           operands);
    }
    const std::vector<bool> carries = of_carries();
    const std::vector<ArrayType> types = loop_.body->output_types();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (carries[i] || context_.is_same_for_all(types[i])) continue;
      results[i] = broadcast_leading(results[i], context_.size);
    }
    return results;
  }

 private:
  std::size_t first_carry() const { return loop_.cond_consts + loop_.body_consts; }
  std::vector<bool> of_carries() const {
    return {batched_.begin() + static_cast<std::ptrdiff_t>(first_carry()), batched_.end()};
  }

  ir::Batched vmap(const FunctionPtr& f, const Places& consts, const std::vector<bool>& forced) const {
    std::vector<bool> batched;
    for (const std::size_t i : joined(consts, places(first_carry(), loop_.carries()))) batched.push_back(batched_[i]);
    return context_.transforms->vmap(f, batched, forced, context_.size, context_.axis);
  }

  /// Runs while any example's predicate holds; an example whose does not keeps its values. The predicates are a carry.
  std::vector<Value> run_each(std::span<const Value> operands) const {
    const ir::AxisSizes& axes = context_.builder.axes();
    const auto as_vars = [](std::span<const Value> values) { return std::vector(values.begin(), values.end()); };
    const std::span<const Value> cond_consts = operands.first(loop_.cond_consts);
    const std::span<const Value> start = operands.subspan(first_carry());
    std::vector<Value> arguments = as_vars(cond_consts);
    arguments.insert(arguments.end(), start.begin(), start.end());
    const Value predicates = call(context_.builder, *cond_.function, arguments)[0];
    std::vector<Value> all = as_vars(operands.first(first_carry()));
    all.push_back(predicates);
    all.insert(all.end(), start.begin(), start.end());

    std::vector<ArrayType> carries = types_of(std::span<const Value>(all).subspan(first_carry()));
    std::vector<ArrayType> types = types_of(operands.first(first_carry()));
    types.insert(types.end(), carries.begin(), carries.end());
    WhileLoop loop;
    loop.body_consts = first_carry();
    loop.cond = write(axes, carries, [](Builder&, std::span<const Value> in) {
      return std::vector{apply_one(primitives::reduce_max(), {in[0]}, {{"axes", Dims{0}}})};
    });
    loop.body = write(axes, types, [&](Builder& builder, std::span<const Value> in) { return step(builder, in); });
    std::vector<Value> results = bind_while(context_.builder, loop, all);
    results.erase(results.begin());
    return results;
  }

  /// (const of cond..., const of body..., predicates, carry...) -> (predicates, carry...).
  std::vector<Value> step(Builder& builder, std::span<const Value> in) const {
    const Value predicates = in[first_carry()];
    const std::span<const Value> old = in.subspan(first_carry() + 1);
    std::vector<Value> arguments;
    for (std::size_t i = 0; i < loop_.body_consts; ++i) arguments.push_back(in[loop_.cond_consts + i]);
    arguments.insert(arguments.end(), old.begin(), old.end());
    std::vector<Value> next = call(builder, *body_.function, arguments);
    for (std::size_t i = 0; i < next.size(); ++i) {
      if (!body_.batched[i]) next[i] = broadcast_leading(next[i], context_.size);
      next[i] = select(broadcast_in_dim(predicates, next[i].shape(), {0}), next[i], old[i]);
    }
    arguments.assign(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(loop_.cond_consts));
    arguments.insert(arguments.end(), next.begin(), next.end());
    next.insert(next.begin(), call(builder, *cond_.function, arguments)[0]);
    return next;
  }

  const ir::BatchContext& context_;
  WhileLoop loop_;
  std::vector<bool> batched_;  // per operand
  ir::Batched body_, cond_;
};

}  // namespace

std::vector<Value> batch_while_loop(const ir::BatchContext& context) { return WhileBatch(context).run(); }

}  // namespace lockstep::ops::control_flow
