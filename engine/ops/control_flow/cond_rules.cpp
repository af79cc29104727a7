#include <algorithm>
#include <optional>
#include <utility>

#include "engine/core/lists.h"
#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops::control_flow {

namespace {

using ir::Builder;
using ir::Cond;
using ir::Tangent;

std::vector<Value> bind_cond(Builder& builder, std::vector<FunctionPtr> branches, const Value& index,
                             std::span<const Value> arguments) {
  std::vector<Value> operands = {index};
  operands.insert(operands.end(), arguments.begin(), arguments.end());
  return sub_function::apply_to(builder, primitives::cond(), operands, Cond{std::move(branches)}.attrs());
}

void join_flags(std::vector<bool>& flags, const std::vector<bool>& more) {
  for (std::size_t i = 0; i < flags.size(); ++i) flags[i] = flags[i] || more[i];
}

/// `transform(branch, forced)` of every branch, where what it marks of one branch's results is forced upon all others.
/// `marks(transformed)` are its marks.
template <class Transformed, class Transform, class Marks>
std::vector<Transformed> alike(const Cond& cond, const Transform& transform, const Marks& marks) {
  std::vector<bool> forced(cond.branches[0]->outputs().size());
  for (const FunctionPtr& branch : cond.branches) join_flags(forced, marks(transform(branch, forced)));
  std::vector<Transformed> results;
  for (const FunctionPtr& branch : cond.branches) results.push_back(transform(branch, forced));
  return results;
}

}  // namespace

ir::JointTangents cond_tangents(const ir::JvpContext& context) {
  const Cond cond = Cond::of(context.attrs);
  std::vector<bool> active;
  std::vector<Value> arguments(context.inputs.begin() + 1, context.inputs.end());
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    active.push_back(context.tangents[i].has_value());
    if (active.back()) arguments.push_back(*context.tangents[i]);
  }
  const auto both = alike<ir::Differentiated>(
      cond,
      [&](const FunctionPtr& f, const std::vector<bool>& forced) { return context.transforms->jvp(f, active, forced); },
      [](const ir::Differentiated& d) { return d.active; });
  std::vector<FunctionPtr> branches;
  for (const ir::Differentiated& d : both) branches.push_back(d.function);
  const std::vector<Value> results = bind_cond(context.builder, branches, context.inputs[0], arguments);
  ir::JointTangents joint;
  const std::size_t outputs = cond.branches[0]->outputs().size();
  joint.tangents.resize(outputs);
  for (std::size_t k = 0, next = outputs; k < outputs; ++k) {
    joint.outputs.push_back(results[k]);
    if (both[0].active[k]) joint.tangents[k] = results[next++];
  }
  return joint;
}

// ---- split

namespace {

/// Where the branches' residuals are kept: arguments as they are; of the others each branch has its own, and those of one
/// type share a slot, since only one branch fills it.
class Slots {
 public:
  Slots(const std::vector<ir::Partitioned>& parts, std::size_t known_outputs) : known_outputs_(known_outputs) {
    for (const ir::Partitioned& part : parts) add(part);
  }

  std::size_t count() const { return types_.size(); }
  const std::vector<ArrayType>& types() const { return types_; }

  /// (known argument...) -> (known result..., slot...): zeros in slots that the branch does not fill.
  FunctionPtr known(const ir::Partitioned& part, std::size_t branch) const {
    return write(part.known->axes(), part.known->input_types(), [&](Builder& builder, std::span<const Value> in) {
      std::vector<Value> results = call(builder, *part.known, in);
      const std::vector<Value> residuals(results.begin() + static_cast<std::ptrdiff_t>(known_outputs_), results.end());
      results.erase(results.begin() + static_cast<std::ptrdiff_t>(known_outputs_), results.end());
      std::vector<Tangent> slots(types_.size());
      for (std::size_t r = 0; r < residuals.size(); ++r) {
        if (const auto slot = placed_[branch][r].slot) slots[*slot] = residuals[r];
      }
      for (std::size_t s = 0; s < slots.size(); ++s) {
        results.push_back(slots[s] ? *slots[s] : zeros_of(builder, types_[s]));
      }
      return results;
    });
  }

  /// (known argument..., slot..., unknown argument...) -> (unknown result...).
  FunctionPtr unknown(const ir::Partitioned& part, std::size_t branch, std::span<const Value> arguments) const {
    const std::size_t known_arguments = part.known->inputs().size();
    return write(part.unknown->axes(), types_of(arguments), [&](Builder& builder, std::span<const Value> in) {
      std::vector<Value> all;
      for (const Place& place : placed_[branch]) {
        all.push_back(in[place.slot ? known_arguments + *place.slot : place.argument]);
      }
      const auto rest = in.subspan(known_arguments + types_.size());
      all.insert(all.end(), rest.begin(), rest.end());
      return call(builder, *part.unknown, all);
    });
  }

 private:
  struct Place {
    std::size_t argument = 0;
    std::optional<std::size_t> slot = std::nullopt;
  };

  void add(const ir::Partitioned& part) {
    const ir::Function& known = *part.known;
    std::vector<bool> taken(types_.size());
    placed_.emplace_back();
    for (std::size_t k = known_outputs_; k < known.outputs().size(); ++k) {
      const auto argument = std::ranges::find(known.inputs(), known.outputs()[k]);
      if (argument != known.inputs().end()) {
        placed_.back().push_back({static_cast<std::size_t>(argument - known.inputs().begin())});
        continue;
      }
      const ArrayType& type = known.type(known.outputs()[k]);
      std::size_t slot = 0;
      while (slot < types_.size() && (taken[slot] || !(types_[slot] == type))) ++slot;
      if (slot == types_.size()) {
        types_.push_back(type);
        taken.push_back(false);
      }
      taken[slot] = true;
      placed_.back().push_back({0, slot});
    }
  }

  std::size_t known_outputs_;
  std::vector<ArrayType> types_;
  std::vector<std::vector<Place>> placed_;  // by branch, by residual
};

/// Without a known index nothing is known.
ir::SplitResult all_unknown(const ir::SplitContext& context, const Cond& cond) {
  const std::vector<Value> results =
      bind_cond(context.builder, cond.branches, context.inputs[0], context.inputs.subspan(1));
  return {results, std::vector<bool>(results.size(), true)};
}

}  // namespace

ir::SplitResult split_cond(const ir::SplitContext& context) {
  const Cond cond = Cond::of(context.attrs);
  if (context.unknown[0]) return all_unknown(context, cond);
  const std::vector<bool> unknown(context.unknown.begin() + 1, context.unknown.end());
  const std::span<const Value> arguments = context.inputs.subspan(1);
  const auto parts = alike<ir::Partitioned>(
      cond,
      [&](const FunctionPtr& f, const std::vector<bool>& forced) {
        return context.transforms->partition(f, unknown, forced);
      },
      [](const ir::Partitioned& part) { return part.unknown_outputs; });
  ir::SplitResult result{{}, parts[0].unknown_outputs};
  const auto known_outputs = static_cast<std::size_t>(std::ranges::count(result.unknown, false));
  const Slots slots(parts, known_outputs);
  std::vector<FunctionPtr> early, late;
  for (std::size_t b = 0; b < parts.size(); ++b) early.push_back(slots.known(parts[b], b));
  std::vector<Value> known_arguments = at(arguments, places_of(unknown, false));
  std::vector<Value> known;
  if (known_outputs + slots.count() > 0) {
    known = bind_cond(context.builder, early, context.inputs[0], known_arguments);
  }
  std::vector<Value> late_arguments = known_arguments;
  late_arguments.insert(late_arguments.end(), known.begin() + static_cast<std::ptrdiff_t>(known_outputs), known.end());
  for (const std::size_t i : places_of(unknown, true)) late_arguments.push_back(arguments[i]);
  for (std::size_t b = 0; b < parts.size(); ++b) late.push_back(slots.unknown(parts[b], b, late_arguments));
  std::vector<bool> used(late_arguments.size());
  for (const FunctionPtr& branch : late) join_flags(used, used_inputs(*branch));
  const Places kept = places_of(used, true);
  for (FunctionPtr& branch : late) branch = pick(*branch, kept, places(0, branch->outputs().size()));
  const std::vector<Value> rest =
      bind_cond(context.builder, late, context.inputs[0], at(std::span<const Value>(late_arguments), kept));
  std::size_t next_known = 0, next_unknown = 0;
  for (const bool is_late : result.unknown) {
    result.outputs.push_back(is_late ? rest[next_unknown++] : known[next_known++]);
  }
  return result;
}

// ---- transpose

std::vector<Tangent> transpose_cond(const ir::TransposeContext& context) {
  const Cond cond = Cond::of(context.attrs);
  Places residual, linear, outputs;
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    (context.inputs[i] ? residual : linear).push_back(i - 1);
  }
  std::vector<Value> arguments;
  for (const std::size_t i : residual) arguments.push_back(*context.inputs[i + 1]);
  for (std::size_t k = 0; k < context.cotangents.size(); ++k) {
    if (!context.cotangents[k]) continue;
    outputs.push_back(k);
    arguments.push_back(*context.cotangents[k]);
  }
  std::vector<FunctionPtr> branches;
  for (const FunctionPtr& branch : cond.branches) {
    branches.push_back(context.transforms->transpose(pick(*branch, joined(residual, linear), outputs),
                                                     static_cast<int>(residual.size())));
  }
  const std::vector<Value> results = bind_cond(context.builder, branches, *context.inputs[0], arguments);
  std::vector<Tangent> answer(context.inputs.size());
  for (std::size_t k = 0; k < linear.size(); ++k) answer[linear[k] + 1] = results[k];
  return answer;
}

// ---- batch

namespace {

Value equal_to(const Value& index, std::int64_t number, std::int64_t branches) {
  // The last branch and the first are also chosen by what lies outside of the range.
  const Value at = full_like(index, static_cast<double>(number));
  if (branches == 1) return equal(index, index);
  if (number == 0) return less_equal(index, at);
  return number == branches - 1 ? greater_equal(index, at) : equal(index, at);
}

/// Every branch on every example, of which the index chooses. A branch sees stop_gradient of the examples that are not its
/// own: whatever derivative it has there (an infinite one, say) reaches nobody.
std::vector<Value> run_all(const ir::BatchContext& context, const Cond& cond) {
  const auto branches = static_cast<std::int64_t>(cond.branches.size());
  std::vector<Value> arguments;
  std::vector<bool> batched(context.batched.begin() + 1, context.batched.end());
  for (std::size_t i = 0; i < batched.size(); ++i) {
    const Value& x = context.inputs[i + 1];
    const bool guarded = is_inexact(x.dtype()) && branches > 1;
    arguments.push_back(guarded && !batched[i] ? broadcast_leading(x, context.size) : x);
    batched[i] = batched[i] || guarded;
  }
  const std::vector<bool> forced(cond.branches[0]->outputs().size(), true);
  std::vector<Value> results;
  for (std::int64_t b = 0; b < branches; ++b) {
    const Value mine = equal_to(context.inputs[0], b, branches);
    const auto spread = [&](const Value& like) { return broadcast_in_dim(mine, like.shape(), {0}); };
    std::vector<Value> own = arguments;
    for (Value& x : own) {
      if (is_inexact(x.dtype()) && branches > 1) x = select(spread(x), x, stop_gradient(x));
    }
    const ir::Batched branch =
        context.transforms->vmap(nth(cond.branches, b), batched, forced, context.size, context.axis);
    const std::vector<Value> values = call(context.builder, *branch.function, own);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (b == 0) {
        results.push_back(values[k]);
      } else {
        results[k] = select(spread(values[k]), values[k], results[k]);
      }
    }
  }
  return results;
}

}  // namespace

std::vector<Value> batch_cond(const ir::BatchContext& context) {
  const Cond cond = Cond::of(context.attrs);
  if (context.batched[0]) return run_all(context, cond);
  const std::vector<bool> batched(context.batched.begin() + 1, context.batched.end());
  const auto branches = alike<ir::Batched>(
      cond,
      [&](const FunctionPtr& f, const std::vector<bool>& forced) {
        return context.transforms->vmap(f, batched, forced, context.size, context.axis);
      },
      [](const ir::Batched& b) { return b.batched; });
  std::vector<FunctionPtr> functions;
  for (const ir::Batched& branch : branches) functions.push_back(branch.function);
  std::vector<Value> results = bind_cond(context.builder, functions, context.inputs[0], context.inputs.subspan(1));
  const std::vector<ArrayType> types = cond.branches[0]->output_types();
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (branches[0].batched[k] || context.is_same_for_all(types[k])) continue;
    results[k] = broadcast_leading(results[k], context.size);
  }
  return results;
}

}  // namespace lockstep::ops::control_flow
