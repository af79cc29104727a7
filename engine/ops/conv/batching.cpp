#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/ops/conv/geometry.h"

namespace lockstep::ops {

namespace {

/// The permutation that takes dimension `from` out and puts it at `to`.
Dims moving_permutation(int rank, int from, int to) {
  Dims permutation;
  for (int i = 0; i < rank; ++i) {
    if (i != from) permutation.push_back(i);
  }
  permutation.insert(permutation.begin() + to, from);
  return permutation;
}

Value move_dim(const Value& x, int from, int to) {
  return from == to ? x : transpose(x, moving_permutation(x.rank(), from, to));
}

}  // namespace

Value merge_batch(const Value& x, int position) {
  const Value moved_x = move_dim(x, 0, position);
  const Shape shape = moved_x.shape();
  return reshape(moved_x, shape.with(position, shape[position] * shape[position + 1]).erase(position + 1));
}

Value split_batch(const Value& x, int position, std::int64_t size) {
  const Shape shape = x.shape().with(position, x.shape()[position] / size).insert(position, size);
  return move_dim(reshape(x, shape), position, 0);
}

Value merge_batch_in_groups(const Value& x, int position, std::int64_t groups) {
  const Shape split = x.shape().with(position + 1, x.shape()[position + 1] / groups).insert(position + 1, groups);
  const Value moved_x = move_dim(reshape(x, split), 0, position + 1);
  const std::int64_t merged = x.shape()[0] * x.shape()[position + 1];
  return reshape(moved_x, x.shape().erase(0).with(position, merged));
}

Value split_batch_in_groups(const Value& x, int position, std::int64_t size, std::int64_t groups) {
  const std::int64_t features = x.shape()[position] / size;
  const Shape split = x.shape().with(position, features / groups).insert(position, size).insert(position, groups);
  const Value moved_x = move_dim(reshape(x, split), position + 1, 0);
  return reshape(moved_x, x.shape().with(position, features).insert(0, size));
}

Attrs with_groups_times(const Attrs& attrs, std::int64_t factor) {
  return attrs.with("groups", attrs.get<std::int64_t>("groups") * factor);
}

ir::BatchRule conv_batch_rule(ir::Infer infer, std::function<Value(const ir::BatchContext&)> rule) {
  return [infer = std::move(infer), rule = std::move(rule)](const ir::BatchContext& context) -> std::vector<Value> {
    if (context.size > 0) return {rule(context)};
    std::vector<ArrayType> types;
    AxisSet varying;
    for (std::size_t i = 0; i < context.inputs.size(); ++i) {
      ArrayType type = context.inputs[i].type();
      if (context.batched[i]) type.shape = type.shape.erase(0);
      varying = varying.joined(type.varying);
      types.push_back(std::move(type));
    }
    ArrayType result = infer({"conv", types, context.attrs, context.builder.axes()}).front();
    result.shape = result.shape.insert(0, 0);
    const Value none = zeros(context.builder, result);
    return {varying.empty() ? none : pvary(none, varying)};
  };
}

}  // namespace lockstep::ops
