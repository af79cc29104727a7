#include <algorithm>

#include <lockstep/error.h>

#include "engine/ir/sub_functions.h"
#include "engine/ops/values.h"
#include "engine/transform/replay.h"
#include "engine/transform/transforms.h"

namespace lockstep::transform {

namespace {

using ir::Builder;
using ir::Equation;
using ir::Function;
using ir::Value;
using ir::Var;

/// Whether an attribute names the axis, or holds a function traced under it.
bool names_axis(const Attrs& attrs, const std::string& axis) {
  return std::ranges::any_of(attrs.entries(), [&](const Attrs::Entry& entry) {
    if (const auto* name = std::get_if<std::string>(&entry.value)) return entry.name == "axis" && *name == axis;
    if (const auto* names = std::get_if<std::vector<std::string>>(&entry.value)) {
      return entry.name == "axes" && std::ranges::find(*names, axis) != names->end();
    }
    const ir::FunctionPtr function = ir::function_in(entry.value);
    return function != nullptr && function->axes().has(axis);
  });
}

/// Replays a function, a flag beside every value that carries the batch.
class Batching {
 public:
  Batching(const Function& f, std::int64_t size, std::string axis)
      : f_(f),
        size_(size),
        axis_(std::move(axis)),
        builder_(f.axes().without(axis_)),
        map_(f),
        batched_(f.types().size()) {}

  ir::Batched run(const std::vector<bool>& batched, const std::vector<bool>& forced) {
    for (std::size_t i = 0; i < batched.size(); ++i) {
      const Var v = f_.inputs()[i];
      ArrayType type = f_.type(v);
      if (batched[i]) type.shape = type.shape.insert(0, size_);
      type.varying = type.varying.without({axis_});
      map_.set(v, builder_.input(type));
      batched_[v.id] = batched[i];
    }
    for (const Equation& equation : f_.equations()) replay(equation);
    builder_.set_provenance({});
    std::vector<Var> outputs;
    std::vector<bool> out_batched;
    for (std::size_t i = 0; i < f_.outputs().size(); ++i) {
      const Var v = f_.outputs()[i];
      const Var out = map_.at(v);
      out_batched.push_back(batched_[v.id] || forced[i]);
      const bool broadcast = out_batched[i] && !batched_[v.id];
      outputs.push_back(broadcast ? ops::broadcast_leading(Value(builder_, out), size_).var() : out);
    }
    return {builder_.finish(std::move(outputs)), std::move(out_batched)};
  }

 private:
  void replay(const Equation& equation) {
    builder_.set_provenance(equation.provenance);
    if (std::ranges::any_of(equation.inputs, [&](Var v) { return batched_[v.id]; }) ||
        (!axis_.empty() && names_axis(equation.attrs, axis_))) {
      batch(equation);
    } else {
      map_.set(equation.outputs, builder_.apply(*equation.primitive, map_.at(equation.inputs), equation.attrs));
    }
  }

  void batch(const Equation& equation) {
    if (!equation.primitive->batch) {
      throw TraceError("vmap: " + describe(equation) + " has no batching rule; apply it outside of vmap");
    }
    std::vector<Value> inputs;
    std::vector<bool> batched;
    for (const Var v : equation.inputs) {
      inputs.emplace_back(builder_, map_.at(v));
      batched.push_back(batched_[v.id]);
    }
    const std::vector<Value> results =
        equation.primitive->batch({builder_, equation.attrs, inputs, std::move(batched), size_, axis_, &transforms()});
    if (results.size() != equation.outputs.size()) {
      throw IrError("vmap: the rule of " + describe(equation) + " gave " + std::to_string(results.size()) +
                    " values for " + std::to_string(equation.outputs.size()) + " results");
    }
    for (std::size_t i = 0; i < results.size(); ++i) set_result(equation, equation.outputs[i], results[i]);
  }

  void set_result(const Equation& equation, Var v, Value result) {
    const ArrayType& one = f_.type(v);
    const Shape all = one.shape.insert(0, size_);
    const ir::Traits& traits = equation.primitive->traits;
    const bool is_typed = traits.typed_axes || traits.call || traits.loop;
    // What does not vary along the axis is one value: batched, it would have a cotangent for each example, where a rule
    // that a program has itself gives their sum.
    const bool is_repeated = is_typed && ir::is_same_for_all(one, axis_) && result.shape() == all;
    if (is_repeated) result = first_of(result);
    const bool same_for_all = is_typed && result.shape() == one.shape;
    if (result.dtype() != one.dtype || (result.shape() != all && !same_for_all)) {
      throw IrError("vmap: the rule of " + describe(equation) + " gave " + to_string(result.type()) + " where " +
                    to_string(ArrayType{one.dtype, all, one.varying}) + " is needed");
    }
    map_.set(v, result.var());
    batched_[v.id] = !same_for_all;
  }

  static Value first_of(const Value& batch) {
    const ops::Dims start(static_cast<std::size_t>(batch.rank()));
    const ops::Dims strides(start.size(), 1);
    ops::Dims limit = batch.shape().to_vector();
    limit[0] = 1;
    return ops::reshape(ops::slice(batch, start, limit, strides), batch.shape().erase(0));
  }

  const Function& f_;
  std::int64_t size_;
  std::string axis_;
  Builder builder_;
  VarMap map_;
  std::vector<bool> batched_;
};

}  // namespace

FunctionPtr vmap(const FunctionPtr& f, const std::vector<bool>& batched, std::int64_t size) {
  return vmap(f, batched, std::vector<bool>(f->outputs().size(), true), size, "").function;
}

ir::Batched vmap(const FunctionPtr& f, const std::vector<bool>& batched, const std::vector<bool>& forced,
                 std::int64_t size, const std::string& axis) {
  if (batched.size() != f->inputs().size()) {
    throw ValueError("vmap: " + std::to_string(batched.size()) + " batch flags for " +
                     std::to_string(f->inputs().size()) + " inputs; give one per input");
  }
  if (size < 0) throw ValueError("vmap: the batch size must not be negative, got " + std::to_string(size));
  if (!axis.empty() && f->axes().size(axis, "vmap") != size) {
    throw MeshError("vmap: axis '" + axis + "' has " + std::to_string(f->axes().size(axis, "vmap")) +
                    " replicas, but the batch has " + std::to_string(size) + " examples; trace the function under " +
                    axis + "=" + std::to_string(size));
  }
  return Batching(*f, size, axis).run(batched, forced);
}

}  // namespace lockstep::transform
