#include <algorithm>
#include <complex>
#include <numeric>

#include "engine/core/lists.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/indexing.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

/// Dimensions of `x` with the one at `from` put at `to`.
Value with_dim_moved(const Value& x, int from, int to) {
  Dims permutation = repeated(x.rank());
  std::iota(permutation.begin(), permutation.end(), std::int64_t{0});
  permutation.erase(permutation.begin() + from);
  permutation.insert(permutation.begin() + to, from);
  return transpose(x, permutation);
}

/// Row numbers of a table whose examples lie one after the other.
Value flat_rows(const Value& indices, std::int64_t rows, std::int64_t size) {
  const Value offsets = batch_numbers(indices.builder(), size, 1) * static_cast<double>(rows);
  return clamped_index(indices, rows) + broadcast_in_dim(offsets, indices.shape(), {0});
}

Shape without_leading(const Shape& shape, int count) {
  return Shape(shape.dims().subspan(static_cast<std::size_t>(count)));
}

std::vector<ArrayType> gather_rows_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 1, infer::integral);
  const Shape& table = context.inputs[0].shape;
  if (table.rank() == 0) infer::shape_error(context, "a table of rank 1 or more", "reshape the table to [1]");
  if (table[0] == 0 && context.inputs[1].size() > 0) {
    infer::shape_error(context, "a table with at least one row", "pass no indices to an empty table");
  }
  Shape result = context.inputs[1].shape;
  for (int i = 1; i < table.rank(); ++i) result.append(table[i]);
  return {{context.inputs[0].dtype, result, {}}};
}

Value gather_rows_transpose(const TransposeContext& context, const Value& ct) {
  return apply_one(primitives::scatter_add_rows(), {*context.inputs[1], ct},
                   {{"rows", context.input_types[0].shape[0]}});
}

std::vector<Value> gather_rows_batch(const ir::BatchContext& context) {
  const Value &table = context.inputs[0], &indices = context.inputs[1];
  const ir::Primitive& self = primitives::gather_rows();
  if (!context.batched[0]) return {apply_one(self, {table, indices})};
  if (!context.batched[1])
    return {with_dim_moved(apply_one(self, {with_dim_moved(table, 0, 1), indices}), indices.rank(), 0)};
  const std::int64_t rows = table.shape()[1];
  const Shape flat = without_leading(table.shape(), 1).with(0, context.size * rows);
  return {apply_one(self, {reshape(table, flat), flat_rows(indices, rows, context.size)})};
}

void gather_rows_reference(const ir::ReferenceContext& context) {
  const Shape& table = context.inputs[0].type.shape;
  const std::int64_t width = without_leading(table, 1).size();
  for (std::int64_t i = 0; i < context.inputs[1].type.size(); ++i) {
    const std::int64_t row = clamped_element(context.inputs[1], i, table[0]);
    for (std::int64_t j = 0; j < width; ++j) {
      reference::copy_element(context.inputs[0], row * width + j, context.outputs[0], i * width + j);
    }
  }
}

std::vector<ir::Sample> gather_rows_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key}) {
    const auto add = [&](const Shape& table, const Shape& indices, DType index = DType::int32) {
      result.push_back({{samples::input(dtype, table, {0, 2}), index_input(index, indices)}, {}, {}});
    };
    add(Shape{5}, Shape{});
    add(Shape{5, 3}, Shape{4}, DType::int64);
    add(Shape{4, 2, 3}, Shape{2, 3}, DType::uint8);
    add(Shape{1, 2}, Shape{1});
    add(Shape{5, 3}, Shape{0});
    add(Shape{0, 3}, Shape{0});
    add(Shape{5, 0}, Shape{2});
  }
  return result;
}

std::vector<ArrayType> scatter_rows_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 0, infer::integral);
  infer::expect_dtype(context, 1, infer::numeric);
  const Shape& indices = context.inputs[0].shape;
  const Shape& updates = context.inputs[1].shape;
  const bool leads = updates.rank() >= indices.rank() && std::equal(indices.begin(), indices.end(), updates.begin());
  if (!leads) infer::shape_error(context, "updates that begin with the indices' shape", "reshape one of them");
  const std::int64_t rows = context.attrs.get<std::int64_t>("rows");
  if (rows < 0 || (rows == 0 && context.inputs[0].size() > 0)) {
    infer::shape_error(context, "at least one row", "give the number of rows of the result");
  }
  return {{context.inputs[1].dtype, without_leading(updates, indices.rank()).insert(0, rows), {}}};
}

Value scatter_rows_transpose(const TransposeContext& context, const Value& ct) {
  return apply_one(primitives::gather_rows(), {ct, *context.inputs[0]});
}

std::vector<Value> scatter_rows_batch(const ir::BatchContext& context) {
  const ir::Primitive& self = primitives::scatter_add_rows();
  const auto rows = context.attrs.get<std::int64_t>("rows");
  if (!context.batched[0]) {
    const int rank = context.inputs[0].rank();
    return {with_dim_moved(
        apply_one(self, {context.inputs[0], with_dim_moved(context.inputs[1], 0, rank)}, context.attrs), 1, 0)};
  }
  const Value indices = flat_rows(context.inputs[0], rows, context.size);
  const Value flat = apply_one(self, {indices, batch::batched(context, 1)}, {{"rows", context.size * rows}});
  return {reshape(flat, without_leading(flat.shape(), 1).insert(0, rows).insert(0, context.size))};
}

/// sum[to] += x[from], in double for floats.
void add_element(const ir::ReferenceArray& x, std::int64_t from, ir::ReferenceArray& sum, std::int64_t to) {
  reference::dispatch<double, std::uint64_t, Complex>(x.type.dtype, [&]<class T>() {
    reference::store(sum, to, static_cast<T>(reference::load<T>(sum, to) + reference::load<T>(x, from)));
  });
  if (is_signed_integer(x.type.dtype)) {
    reference::store(sum, to, reference::load<std::uint64_t>(sum, to) + reference::load<std::uint64_t>(x, from));
  }
}

void scatter_rows_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray& updates = context.inputs[1];
  const std::int64_t rows = context.attrs.get<std::int64_t>("rows");
  const std::int64_t width = without_leading(context.outputs[0].type.shape, 1).size();
  for (std::int64_t i = 0; i < context.inputs[0].type.size(); ++i) {
    const std::int64_t row = clamped_element(context.inputs[0], i, rows);
    for (std::int64_t j = 0; j < width; ++j) add_element(updates, i * width + j, context.outputs[0], row * width + j);
  }
}

std::vector<ir::Sample> scatter_rows_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::uint8}) {
    const auto add = [&](const Shape& indices, const Shape& updates, std::int64_t rows, DType index = DType::int32) {
      result.push_back({{index_input(index, indices), samples::input(dtype, updates, {0, 2})}, {{"rows", rows}}, {}});
    };
    add(Shape{}, Shape{}, 3);
    add(Shape{6}, Shape{6, 3}, 4, DType::int64);
    add(Shape{2, 3}, Shape{2, 3, 2}, 5, DType::uint8);
    add(Shape{1}, Shape{1}, 1);
    add(Shape{0}, Shape{0, 3}, 2);
    add(Shape{0}, Shape{0, 3}, 0);
    add(Shape{2}, Shape{2, 0}, 3);
  }
  return result;
}

const ArrayType table_type{DType::float32, Shape{3, 2}, {}};
const ArrayType row_index_type{DType::int32, Shape{4}, {}};

// Rows of a cut table are looked up where they are, zeros elsewhere; updates are added where their rows are.

ir::Factors gather_rows_layout(const ir::LayoutContext& context) {
  ir::Factors factors;
  const ir::FactorDims table = layout::own_dims(factors, context.inputs[0].shape);
  factors.list[0].kind = ir::Factor::Kind::found;
  const ir::FactorDims indices = layout::own_dims(factors, context.inputs[1].shape);
  ir::FactorDims result = indices;
  result.insert(result.end(), table.begin() + 1, table.end());
  factors.operands = {table, indices};
  factors.results = {result};
  return factors;
}

std::vector<Value> gather_rows_of_block(const ir::BlockContext& context) {
  const Value& table = context.inputs[0];
  const Value& indices = context.inputs[1];
  if (context.axes[0].empty()) return {apply_one(primitives::gather_rows(), {table, indices})};
  const layout::LocalIndices local =
      layout::local_indices(context, indices, 0, context.whole_inputs[0].shape[0], table.shape()[0]);
  const Value rows = apply_one(primitives::gather_rows(), {table, local.indices});
  Dims dims;
  for (int d = 0; d < indices.rank(); ++d) dims.push_back(d);
  return {select(broadcast_in_dim(local.are_own, rows.shape(), dims), rows, full_like(rows, 0))};
}

ir::Factors scatter_rows_layout(const ir::LayoutContext& context) {
  ir::Factors factors;
  const ir::FactorDims table = layout::own_dims(factors, context.outputs[0].shape);
  const ir::FactorDims indices = layout::own_dims(factors, context.inputs[0].shape);
  ir::FactorDims updates = indices;
  updates.insert(updates.end(), table.begin() + 1, table.end());
  factors.operands = {indices, updates};
  factors.results = {table};
  return factors;
}

std::vector<Value> scatter_rows_of_block(const ir::BlockContext& context) {
  const Value& indices = context.inputs[0];
  const Value& updates = context.inputs[1];
  const std::int64_t rows = context.outputs[0].shape[0];
  const Attrs attrs = {{"rows", rows}};
  if (context.axes[0].empty()) return {apply_one(primitives::scatter_add_rows(), {indices, updates}, attrs)};
  const layout::LocalIndices local =
      layout::local_indices(context, indices, 0, context.whole_outputs[0].shape[0], rows);
  Dims dims;
  for (int d = 0; d < indices.rank(); ++d) dims.push_back(d);
  const Value own = select(broadcast_in_dim(local.are_own, updates.shape(), dims), updates, full_like(updates, 0));
  return {apply_one(primitives::scatter_add_rows(), {local.indices, own}, attrs)};
}

}  // namespace

const Primitive& primitives::gather_rows() {
  static const Primitive op{
      .name = "gather_rows",
      .infer = gather_rows_infer,
      .derivative = derivative::linear_in_one(0, gather_rows_transpose),
      .batch = gather_rows_batch,
      .reference = gather_rows_reference,
      .samples = gather_rows_samples,
      .error_samples = samples::errors(
          {{{table_type, table_type}, {}, "expected an integer dtype for operand 1", {}},
           {{{DType::float32, Shape{}, {}}, row_index_type}, {}, "a table of rank 1 or more", {}},
           {{{DType::float32, Shape{0, 2}, {}}, row_index_type}, {}, "a table with at least one row", {}},
           {{table_type}, {}, "expected 2 operands", {}}}),
      .traits = {},
      .layout = {.factors = gather_rows_layout, .write = gather_rows_of_block}};
  return op;
}

const Primitive& primitives::scatter_add_rows() {
  static const Primitive op{
      .name = "scatter_add_rows",
      .infer = scatter_rows_infer,
      .derivative = derivative::linear_in_one(1, scatter_rows_transpose),
      .batch = scatter_rows_batch,
      .reference = scatter_rows_reference,
      .flops = flops::per_element(1),
      .samples = scatter_rows_samples,
      .error_samples = samples::errors(
          {{{row_index_type, table_type},
            {{"rows", std::int64_t{3}}},
            "updates that begin with the indices' shape",
            {}},
           {{row_index_type, {DType::float32, Shape{4}, {}}}, {{"rows", std::int64_t{0}}}, "at least one row", {}},
           {{row_index_type, {DType::bool_, Shape{4}, {}}}, {{"rows", std::int64_t{3}}}, "for operand 1", {}},
           {{table_type, table_type}, {{"rows", std::int64_t{3}}}, "an integer dtype for operand 0", {}}}),
      .traits = {},
      .layout = {.factors = scatter_rows_layout, .write = scatter_rows_of_block}};
  return op;
}

}  // namespace lockstep::ops
