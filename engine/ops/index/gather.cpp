#include <algorithm>

#include "engine/ops/index/windows.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> gather_infer(const ir::InferContext& context) {
  return {{context.inputs.empty() ? DType::float32 : context.inputs[0].dtype, moves_of_gather(context).windows, {}}};
}

Value gather_transpose(const TransposeContext& context, const Value& ct) {
  return apply_one(primitives::scatter_add(), {zeros(context.builder, context.input_types[0]), *context.inputs[1], ct},
                   renamed(context.attrs, gather_names, scatter_names));
}

std::vector<Value> gather_batch(const ir::BatchContext& context) {
  const Value &operand = context.inputs[0], &indices = context.inputs[1];
  const Dims& sizes = context.attrs.get<Dims>("slice_sizes");
  if (!context.batched[0]) {
    const Attrs attrs = context.attrs.with("offset_dims", batch::shifted(context.attrs.get<Dims>("offset_dims")))
                            .with("start_indices_batching_dims",
                                  batch::shifted(context.attrs.get<Dims>("start_indices_batching_dims")));
    return {apply_one(primitives::gather(), {operand, indices}, attrs)};
  }
  const bool both = context.batched[1];
  const Attrs attrs = batched_attrs(context.attrs, gather_names, both);
  return {apply_one(primitives::gather(), {operand, indices},
                    attrs.with("slice_sizes", batch::prepended(both ? 1 : context.size, sizes)))};
}

void gather_reference(const ir::ReferenceContext& context) {
  const std::vector<ArrayType> types = {context.inputs[0].type, context.inputs[1].type};
  const WindowMoves moves = moves_of_gather({"gather", types, context.attrs, {}});
  for_each_move(moves, context.inputs[1], [&](std::int64_t from, std::int64_t to) {
    if (from >= 0) reference::copy_element(context.inputs[0], from, context.outputs[0], to);
  });
}

std::vector<ir::Sample> gather_samples() {
  std::vector<ir::Sample> list;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    for (const MoveCase& c : move_cases()) {
      list.push_back({{samples::input(dtype, c.operand, {0, 2}), window_indices(c)}, c.attrs, {}});
    }
  }
  return list;
}

std::vector<ir::ErrorSample> gather_errors() {
  const ArrayType x{DType::float32, {4, 3}, {}};
  const ArrayType indices{DType::int32, {5, 1}, {}};
  const Attrs attrs = gather_attrs({1}, {0}, {0}, {1, 3});
  const std::vector<ArrayType> good = {x, indices};
  return {
      {{x}, attrs, "expected 2 operands", {}},
      {{x, {DType::float32, {5, 1}, {}}}, attrs, "an integer dtype for operand 1", {}},
      {{x, {DType::int32, {}, {}}}, attrs, "whose last dimension holds the index vectors", {}},
      {{x, {DType::int32, {5, 2}, {}}}, attrs, "index vectors of 1 numbers", {}},
      {good, attrs.with("mode", std::string("wrap")), "mode clip, fill or promise_in_bounds", {}},
      {good, attrs.with("offset_dims", Dims{2}), "distinct offset_dims in [0, 2)", {}},
      {good, attrs.with("offset_dims", Dims{}), "1 numbers in offset_dims", {}},
      {good, gather_attrs({1, 0}, {}, {0}, {1, 3}), "ascending offset_dims", {}},
      {good, attrs.with("collapsed_slice_dims", Dims{2}), "distinct collapsed_slice_dims in [0, 2)", {}},
      {good, attrs.with("start_index_map", Dims{2}), "distinct start_index_map in [0, 2)", {}},
      {good, attrs.with("slice_sizes", Dims{1}), "2 numbers in slice_sizes", {}},
      {good, attrs.with("slice_sizes", Dims{2, 3}), "windows of extent 1 in dimension 0", {}},
      {good, attrs.with("slice_sizes", Dims{1, 4}), "windows of at most 3 in dimension 1", {}},
      {good, gather_attrs({}, {0}, {0}, {1, 1}, "clip", {1}, {0}), "as many operand_batching_dims", {}},
      {good, gather_attrs({1}, {0}, {0}, {1, 3}, "clip", {}, {1}), "start_indices_batching_dims in [0, 1)", {}},
  };
}

/// Dimensions that windows take all of, and those of the index vectors, run on in the result.
ir::Factors gather_layout(const ir::LayoutContext& context) {
  ir::Factors factors;
  const Shape& x = context.inputs[0].shape;
  const Shape& indices = context.inputs[1].shape;
  const auto& sizes = context.attrs.get<Dims>("slice_sizes");
  const auto& offsets = context.attrs.get<Dims>("offset_dims");
  const auto is_in = [&](const char* name, int d) {
    const auto& dims = context.attrs.get<Dims>(name);
    return std::ranges::find(dims, d) != dims.end();
  };
  ir::FactorDims result(static_cast<std::size_t>(context.outputs[0].shape.rank()));
  ir::FactorDims operand;
  std::size_t next = 0;
  for (int d = 0; d < x.rank(); ++d) {
    const bool has_place = !is_in("collapsed_slice_dims", d) && !is_in("operand_batching_dims", d);
    const std::int64_t size = sizes[static_cast<std::size_t>(d)];
    const bool is_all = has_place && size == x[d];
    operand.push_back({factors.add(x[d], is_all ? ir::Factor::Kind::sum : ir::Factor::Kind::whole)});
    if (!has_place) continue;
    const std::vector<int> windowed = {factors.add(size, ir::Factor::Kind::whole)};
    result[static_cast<std::size_t>(offsets[next++])] = is_all ? operand.back() : windowed;
  }
  ir::FactorDims places;
  for (int d = 0; d < indices.rank(); ++d) {
    const bool is_vector = d + 1 == indices.rank() || is_in("start_indices_batching_dims", d);
    places.push_back({factors.add(indices[d], is_vector ? ir::Factor::Kind::whole : ir::Factor::Kind::sum)});
  }
  std::size_t place = 0;
  for (int d = 0; d < context.outputs[0].shape.rank(); ++d) {
    if (!is_in("offset_dims", d)) result[static_cast<std::size_t>(d)] = places[place++];
  }
  factors.operands = {operand, places};
  factors.results = {result};
  return factors;
}

Attrs gather_of_block(const ir::BlockContext& context) {
  Dims sizes = context.attrs.get<Dims>("slice_sizes");
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] = std::min(sizes[d], context.inputs[0].shape()[static_cast<int>(d)]);
  }
  return context.attrs.with("slice_sizes", sizes);
}

}  // namespace

const Primitive& primitives::gather() {
  static const Primitive op{.name = "gather",
                            .infer = gather_infer,
                            .derivative = derivative::linear_in_one(0, gather_transpose),
                            .batch = gather_batch,
                            .reference = gather_reference,
                            .samples = gather_samples,
                            .error_samples = gather_errors,
                            .traits = {},
                            .layout = {.factors = gather_layout, .attrs = gather_of_block}};
  return op;
}

}  // namespace lockstep::ops
