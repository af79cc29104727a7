#include <algorithm>

#include "engine/ops/rules/define.h"
#include "engine/ops/rules/indexing.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> dynamic_slice_infer(const ir::InferContext& context) {
  infer::expect_at_least(context, 1);
  const Shape& x = context.inputs[0].shape;
  expect_scalar_indices(context, 1, x.rank());
  infer::list_attr(context, "sizes", x.rank());
  const Shape sizes = infer::shape_attr(context, "sizes");
  for (int i = 0; i < x.rank(); ++i) {
    if (sizes[i] > x[i]) {
      infer::shape_error(context, "a size of at most " + std::to_string(x[i]) + " in dimension " + std::to_string(i),
                         "take a smaller slice");
    }
  }
  return {{context.inputs[0].dtype, sizes, {}}};
}

std::vector<Value> indices_of(std::span<const Value> operands, std::size_t first) {
  return {operands.begin() + static_cast<std::ptrdiff_t>(first), operands.end()};
}

std::vector<Tangent> dynamic_slice_transpose(const TransposeContext& context) {
  std::vector<Value> operands = {zeros(context.builder, context.input_types[0]), *context.cotangents[0]};
  for (std::size_t i = 1; i < context.inputs.size(); ++i) operands.push_back(*context.inputs[i]);
  const Value whole = ops::apply(primitives::dynamic_update_slice(), operands).front();
  return derivative::only(context.input_types.size(), 0, whole);
}

/// Every example's slice by one gather: trailing dimensions taken whole form the rows.
Value gathered_slices(const ir::BatchContext& context, const Shape& x, const Shape& sizes) {
  int split = x.rank();
  while (split > 0 && sizes[split - 1] == x[split - 1]) --split;
  Shape picked{context.size}, table{};
  for (int d = 0; d < split; ++d) picked.append(sizes[d]);
  std::int64_t rows = 1;
  for (int d = 0; d < split; ++d) rows *= x[d];
  table.append(context.batched[0] ? context.size * rows : rows);
  for (int d = split; d < x.rank(); ++d) table.append(x[d]);

  Value row = full(context.builder, DType::int64, picked, 0);
  if (context.batched[0])
    row = broadcast_in_dim(batch_numbers(context.builder, context.size, 1) * double(rows), picked, {0});
  std::int64_t stride = 1;
  for (int d = split - 1; d >= 0; --d) {
    const Value start = clamped_index(batch::batched(context, static_cast<std::size_t>(d) + 1), x[d] - sizes[d] + 1);
    const Value position = broadcast_in_dim(start, picked, {0}) + iota(context.builder, DType::int64, picked, d + 1);
    row = row + position * double(stride);
    stride *= x[d];
  }
  return apply_one(primitives::gather_rows(), {reshape(context.inputs[0], table), row});
}

std::vector<Value> dynamic_slice_batch(const ir::BatchContext& context) {
  const Shape sizes(context.attrs.get<Dims>("sizes"));
  if (std::find(context.batched.begin() + 1, context.batched.end(), true) == context.batched.end()) {
    std::vector<Value> operands = {context.inputs[0]};
    const DType dtype = context.inputs.size() > 1 ? context.inputs[1].dtype() : DType::int32;
    operands.push_back(full(context.builder, dtype, Shape{}, 0));
    for (const Value& index : indices_of(context.inputs, 1)) operands.push_back(index);
    return ops::apply(primitives::dynamic_slice(), operands,
                      {{"sizes", batch::prepended(context.size, sizes.to_vector())}});
  }
  const Shape x = context.batched[0] ? context.inputs[0].shape().erase(0) : context.inputs[0].shape();
  return {gathered_slices(context, x, sizes)};
}

/// First elements of the slice or update of extents `sizes`, moved so that it fits.
reference::Index starts(const ir::ReferenceContext& context, std::size_t first, const Shape& x, const Shape& sizes) {
  reference::Index result;
  for (int d = 0; d < x.rank(); ++d) {
    result.push_back(clamped_element(context.inputs[first + static_cast<std::size_t>(d)], 0, x[d] - sizes[d] + 1));
  }
  return result;
}

std::int64_t dynamic_slice_source(const ir::ReferenceContext& context, const reference::Index& index) {
  const Shape& x = context.inputs[0].type.shape;
  reference::Index from = starts(context, 1, x, context.outputs[0].type.shape);
  for (std::size_t d = 0; d < from.size(); ++d) from[d] += index[d];
  return reference::offset(x, from);
}

std::vector<ArrayType> update_infer(const ir::InferContext& context) {
  infer::expect_at_least(context, 2);
  const Shape& x = context.inputs[0].shape;
  const Shape& update = context.inputs[1].shape;
  if (context.inputs[0].dtype != context.inputs[1].dtype) {
    infer::dtype_error(context, "an update of the operand's dtype", "convert(update, dtype)");
  }
  bool fits = update.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = update[i] <= x[i];
  if (!fits) infer::shape_error(context, "an update of the operand's rank that fits into it", "reshape or slice it");
  expect_scalar_indices(context, 2, x.rank());
  return {{context.inputs[0].dtype, x, {}}};
}

std::vector<Tangent> update_jvp(const JvpContext& context) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < 2; ++i) {
    operands.push_back(derivative::or_zeros(context.builder, context.tangents[i], context.inputs[i].type()));
  }
  for (const Value& index : indices_of(context.inputs, 2)) operands.push_back(index);
  return {ops::apply(primitives::dynamic_update_slice(), operands).front()};
}

std::vector<Tangent> update_transpose(const TransposeContext& context) {
  const Value& ct = *context.cotangents[0];
  std::vector<Value> indices;
  for (std::size_t i = 2; i < context.inputs.size(); ++i) indices.push_back(*context.inputs[i]);
  std::vector<Tangent> result(context.input_types.size());
  if (!context.inputs[0]) {
    std::vector<Value> operands = {ct, zeros(context.builder, context.input_types[1])};
    operands.insert(operands.end(), indices.begin(), indices.end());
    result[0] = ops::apply(primitives::dynamic_update_slice(), operands).front();
  }
  if (!context.inputs[1]) {
    std::vector<Value> operands = {ct};
    operands.insert(operands.end(), indices.begin(), indices.end());
    const Dims sizes = context.input_types[1].shape.to_vector();
    result[1] = ops::apply(primitives::dynamic_slice(), operands, {{"sizes", sizes}}).front();
  }
  return result;
}

/// Every element asks whether it lies in its example's update and, if so, which element of it it is.
Value gathered_update(const ir::BatchContext& context, const Value& x, const Shape& update) {
  const Shape& shape = x.shape();
  Value inside = full(context.builder, DType::bool_, shape, 1);
  Value from = full(context.builder, DType::int64, shape, 0);
  std::int64_t stride = 1;
  for (int d = update.rank() - 1; d >= 0; --d) {
    const std::int64_t last_start = shape[d + 1] - update[d];
    const Value start = clamped_index(batch::batched(context, static_cast<std::size_t>(d) + 2), last_start + 1);
    const Value position = iota(context.builder, DType::int64, shape, d + 1) - broadcast_in_dim(start, shape, {0});
    const Value in_range = bitwise_and(greater_equal(position, full_like(position, 0)),
                                       less(position, full_like(position, double(update[d]))));
    inside = bitwise_and(inside, in_range);
    from = from + clamped_index(position, update[d]) * double(stride);
    stride *= update[d];
  }
  std::int64_t rows = stride;
  if (context.batched[1]) {
    from = from + broadcast_in_dim(batch_numbers(context.builder, context.size, 1) * double(rows), shape, {0});
    rows *= context.size;
  }
  const Value updates = apply_one(primitives::gather_rows(), {reshape(context.inputs[1], Shape{rows}), from});
  return select(inside, updates, x);
}

std::vector<Value> update_batch(const ir::BatchContext& context) {
  const Value x = batch::batched(context, 0);
  const Shape update = context.batched[1] ? context.inputs[1].shape().erase(0) : context.inputs[1].shape();
  if (update.size() == 0 || x.type().size() == 0) return {x};
  if (std::find(context.batched.begin() + 2, context.batched.end(), true) != context.batched.end()) {
    return {gathered_update(context, x, update)};
  }
  const DType dtype = context.inputs.size() > 2 ? context.inputs[2].dtype() : DType::int32;
  std::vector<Value> operands = {x, batch::batched(context, 1), full(context.builder, dtype, Shape{}, 0)};
  for (const Value& index : indices_of(context.inputs, 2)) operands.push_back(index);
  return ops::apply(primitives::dynamic_update_slice(), operands);
}

void update_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray& update = context.inputs[1];
  reference::copies()(context);
  const Shape& x = context.inputs[0].type.shape;
  const reference::Index start = starts(context, 2, x, update.type.shape);
  std::int64_t i = 0;
  reference::for_each_index(update.type.shape, [&](const reference::Index& index) {
    reference::Index to = index;
    for (std::size_t d = 0; d < to.size(); ++d) to[d] += start[d];
    reference::copy_element(update, i++, context.outputs[0], reference::offset(x, to));
  });
}

const std::vector<DType>& moved_dtypes() {
  static const std::vector<DType> dtypes = {DType::float64, DType::float32, DType::bfloat16,
                                            DType::int32,   DType::bool_,   DType::key};
  return dtypes;
}

/// Indices of `rank` dimensions drawn beyond both ends.
void add_indices(ir::Sample& sample, int rank, DType dtype = DType::int32) {
  const double low = is_unsigned_integer(dtype) ? 0 : -2;
  for (int d = 0; d < rank; ++d) sample.inputs.push_back(samples::input(dtype, Shape{}, {low, 6}));
}

std::vector<ir::Sample> dynamic_slice_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : moved_dtypes()) {
    const auto add = [&](const Shape& shape, const Dims& sizes, DType index = DType::int32) {
      ir::Sample sample{{samples::input(dtype, shape, {0, 2})}, {{"sizes", sizes}}, {}};
      add_indices(sample, shape.rank(), index);
      result.push_back(std::move(sample));
    };
    add(Shape{5}, {3});
    add(Shape{4, 3}, {2, 3}, DType::int64);
    add(Shape{4, 3, 2}, {1, 2, 2}, DType::uint8);
    add(Shape{3}, {0});
    add(Shape{0, 2}, {0, 1});
    add(Shape{}, {});
    add(Shape{1}, {1});
  }
  return result;
}

std::vector<ir::Sample> update_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : moved_dtypes()) {
    const auto add = [&](const Shape& shape, const Shape& update, DType index = DType::int32) {
      ir::Sample sample{{samples::input(dtype, shape, {0, 2}), samples::input(dtype, update, {0, 2})}, {}, {}};
      add_indices(sample, shape.rank(), index);
      result.push_back(std::move(sample));
    };
    add(Shape{5}, Shape{3});
    add(Shape{4, 3}, Shape{2, 3}, DType::int64);
    add(Shape{4, 3, 2}, Shape{1, 2, 2}, DType::uint8);
    add(Shape{3}, Shape{0});
    add(Shape{0, 2}, Shape{0, 1});
    add(Shape{}, Shape{});
    add(Shape{1}, Shape{1});
  }
  return result;
}

/// Dimensions that the window, result 0 (side 0) or operand 1 (side 1), takes all of run together: its place there is 0.
template <int side>
ir::Factors window_factors(const ir::LayoutContext& context) {
  ir::Factors factors;
  const Shape& x = context.inputs[0].shape;
  const Shape& window = side == 0 ? context.outputs[0].shape : context.inputs[1].shape;
  ir::FactorDims outer;
  ir::FactorDims inner;
  for (int d = 0; d < x.rank(); ++d) {
    const bool is_all = window[d] == x[d];
    outer.push_back({factors.add(x[d], is_all ? ir::Factor::Kind::sum : ir::Factor::Kind::whole)});
    inner.push_back(is_all ? outer.back() : std::vector<int>{factors.add(window[d], ir::Factor::Kind::whole)});
  }
  factors.operands.resize(context.inputs.size());
  factors.operands[0] = outer;
  if (side == 1) factors.operands[1] = inner;
  factors.results = {side == 0 ? inner : outer};
  return factors;
}

}  // namespace

const Primitive& primitives::dynamic_slice() {
  static const Primitive op{
      .name = "dynamic_slice",
      .infer = dynamic_slice_infer,
      .derivative = derivative::linear(dynamic_slice_transpose, {0}),
      .batch = dynamic_slice_batch,
      .reference = reference::moves(dynamic_slice_source),
      .samples = dynamic_slice_samples,
      .error_samples = samples::errors({{{samples::float32_vector, samples::int32_scalar},
                                         {{"sizes", Dims{4}}},
                                         "a size of at most 3 in dimension 0",
                                         {}},
                                        {{samples::float32_vector, samples::int32_scalar},
                                         {{"sizes", Dims{1, 1}}},
                                         "expected 1 numbers in sizes",
                                         {}},
                                        {{samples::float32_vector}, {{"sizes", Dims{1}}}, "expected 2 operands", {}},
                                        {{samples::float32_vector, samples::float32_vector},
                                         {{"sizes", Dims{1}}},
                                         "expected an integer dtype for operand 1",
                                         {}},
                                        {{samples::float32_vector, {DType::int32, Shape{1}, {}}},
                                         {{"sizes", Dims{1}}},
                                         "expected rank 0 for operand 1",
                                         {}}}),
      .traits = {},
      .layout = {.factors = window_factors<0>,
                 .attrs = [](const ir::BlockContext& context) { return layout::with_block_shape(context, "sizes"); }}};
  return op;
}

const Primitive& primitives::dynamic_update_slice() {
  static const Primitive op{.name = "dynamic_update_slice",
                            .infer = update_infer,
                            .derivative = derivative::linear(update_transpose, {0, 1}, update_jvp),
                            .batch = update_batch,
                            .reference = update_reference,
                            .samples = update_samples,
                            .error_samples = samples::errors(
                                {{{samples::float32_vector, {DType::float32, Shape{4}, {}}, samples::int32_scalar},
                                  {},
                                  "that fits into it",
                                  {}},
                                 {{samples::float32_vector, {DType::float32, Shape{}, {}}, samples::int32_scalar},
                                  {},
                                  "an update of the operand's rank",
                                  {}},
                                 {{samples::float32_vector, {DType::float64, Shape{1}, {}}, samples::int32_scalar},
                                  {},
                                  "an update of the operand's dtype",
                                  {}},
                                 {{samples::float32_vector, samples::float32_vector}, {}, "expected 3 operands", {}}}),
                            .traits = {},
                            .layout = {.factors = window_factors<1>}};
  return op;
}

}  // namespace lockstep::ops
