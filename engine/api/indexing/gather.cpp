#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/random.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

Attrs scatter_attrs(const ScatterDims& dims, std::string_view op, IndexMode mode) {
  return {{"update_window_dims", dims.update_window_dims},
          {"inserted_window_dims", dims.inserted_window_dims},
          {"scatter_dims_to_operand_dims", dims.scatter_dims_to_operand_dims},
          {"operand_batching_dims", dims.operand_batching_dims},
          {"scatter_indices_batching_dims", dims.scatter_indices_batching_dims},
          {"mode", api::mode_text(op, mode)}};
}

/// Whether each window lies inside, broadcast over the result.
Array windows_inside(const Array& operand, const Array& indices, const GatherDims& dims, const Axes& sizes,
                     const Shape& result) {
  Array inside;
  for (std::size_t i = 0; i < dims.start_index_map.size(); ++i) {
    const auto d = static_cast<std::size_t>(dims.start_index_map[i]);
    const auto at = static_cast<std::int64_t>(i);
    const Array number = squeeze(slice_in_dim(indices, at, at + 1, -1), {-1});
    const Array low = greater_equal(number, 0);
    const Array high = less_equal(convert(number, int64), operand.shape()[static_cast<int>(d)] - sizes[d]);
    inside = inside.has_value() ? inside & low & high : low & high;
  }
  if (!inside.has_value())
    inside = full(Shape(std::span(indices.shape().begin(), indices.shape().end() - 1)), true, bool_);
  Axes batch;
  for (std::int64_t d = 0; d < result.rank(); ++d) {
    if (std::find(dims.offset_dims.begin(), dims.offset_dims.end(), d) == dims.offset_dims.end()) batch.push_back(d);
  }
  return api::bind_one(ops::primitives::broadcast_in_dim(), {inside}, {{"shape", result.to_vector()}, {"dims", batch}});
}

Array scattered(std::string_view op, const ir::Primitive& primitive, const Array& operand, const Array& indices,
                const Array& updates, const ScatterDims& dims, IndexMode mode) {
  return api::bind_one(primitive, {operand, indices, updates}, scatter_attrs(dims, op, mode));
}

/// The scatter of rows of x to the rows of `initial` that the segment ids name.
Array joined_segments(std::string_view op, const ir::Primitive& primitive, const Array& x, const Array& segment_ids,
                      std::int64_t num_segments, const Operand& initial) {
  api::expect_integers(op, segment_ids, "segment ids");
  if (segment_ids.ndim() != 1 || x.ndim() == 0 || segment_ids.dim(0) != x.dim(0)) {
    throw ShapeError(fmt::format("{}: needs one segment id per row, got ids of shape {} for x of shape {}", op,
                                 to_string(segment_ids.shape()), to_string(x.shape())));
  }
  if (num_segments < 0) {
    throw ValueError(fmt::format("{}: num_segments must not be negative, got {}", op, num_segments));
  }
  ScatterDims dims{{}, {0}, {0}};
  for (std::int64_t d = 1; d < x.ndim(); ++d) dims.update_window_dims.push_back(d);
  const Array start = full(x.shape().with(0, num_segments), initial, x.dtype());
  return scattered(op, primitive, start, expand_dims(segment_ids, -1), x, dims, IndexMode::fill);
}

}  // namespace

namespace api {

std::string mode_text(std::string_view op, IndexMode mode) {
  if (mode == IndexMode::wrap) {
    throw ValueError(fmt::format("{}: mode wrap is for take alone; take the indices modulo the extent", op));
  }
  return mode == IndexMode::clip ? "clip" : mode == IndexMode::fill ? "fill" : "promise_in_bounds";
}

Operand least_value(DType dtype) {
  if (dtype == DType::bool_) return false;
  if (is_unsigned_integer(dtype)) return 0;
  if (!is_integer(dtype)) return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<std::int64_t>::min() >> (64 - 8 * static_cast<int>(size_of(dtype)));
}

Operand largest_value(DType dtype) {
  if (dtype == DType::bool_) return true;
  if (!is_integer(dtype)) return std::numeric_limits<double>::infinity();
  if (dtype == DType::uint64) return std::numeric_limits<std::uint64_t>::max();
  const int bits = 8 * static_cast<int>(size_of(dtype)) - (is_unsigned_integer(dtype) ? 0 : 1);
  return static_cast<std::int64_t>(std::numeric_limits<std::uint64_t>::max() >> (64 - bits));
}

Array filled_outside(const Array& inside, const Array& elements, const std::optional<Operand>& fill) {
  const DType dtype = elements.dtype();
  if (dtype == DType::key) {  // which do not mix with numbers, as operands of `where` may
    const Array outside = random::wrap_key_data(full({2}, 0xffffffff, uint32));
    const auto whole = [&](const Array& x) { return broadcast("take", x, elements.shape()); };
    return bind_one(ops::primitives::select(), {whole(inside), elements, whole(outside)});
  }
  if (fill) return where(inside, elements, fill->is_scalar() ? full({}, *fill, dtype) : convert(fill->array(), dtype));
  if (is_inexact(dtype)) return where(inside, elements, std::numeric_limits<double>::quiet_NaN());
  return where(inside, elements, full({}, is_signed_integer(dtype) ? least_value(dtype) : largest_value(dtype), dtype));
}

}  // namespace api

Array gather(const ArrayOperand& operand, const ArrayOperand& indices, const GatherDims& dims, const Axes& slice_sizes,
             IndexMode mode, const std::optional<Operand>& fill) {
  const Array result = api::bind_one(ops::primitives::gather(), {operand, indices},
                                     {{"offset_dims", dims.offset_dims},
                                      {"collapsed_slice_dims", dims.collapsed_slice_dims},
                                      {"start_index_map", dims.start_index_map},
                                      {"operand_batching_dims", dims.operand_batching_dims},
                                      {"start_indices_batching_dims", dims.start_indices_batching_dims},
                                      {"slice_sizes", slice_sizes},
                                      {"mode", api::mode_text(__func__, mode)}});
  if (mode != IndexMode::fill || dims.start_index_map.empty()) return result;
  return api::filled_outside(windows_inside(operand, indices, dims, slice_sizes, result.shape()), result, fill);
}

Array scatter(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
              const ScatterDims& dims, IndexMode mode) {
  return scattered(__func__, ops::primitives::scatter(), operand, indices, updates, dims, mode);
}
Array scatter_add(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                  const ScatterDims& dims, IndexMode mode) {
  return scattered(__func__, ops::primitives::scatter_add(), operand, indices, updates, dims, mode);
}
Array scatter_mul(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                  const ScatterDims& dims, IndexMode mode) {
  return scattered(__func__, ops::primitives::scatter_mul(), operand, indices, updates, dims, mode);
}
Array scatter_min(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                  const ScatterDims& dims, IndexMode mode) {
  return scattered(__func__, ops::primitives::scatter_min(), operand, indices, updates, dims, mode);
}
Array scatter_max(const ArrayOperand& operand, const ArrayOperand& indices, const ArrayOperand& updates,
                  const ScatterDims& dims, IndexMode mode) {
  return scattered(__func__, ops::primitives::scatter_max(), operand, indices, updates, dims, mode);
}

Array segment_sum(const ArrayOperand& x, const ArrayOperand& segment_ids, std::int64_t num_segments) {
  return joined_segments("segment_sum", ops::primitives::scatter_add(), x, segment_ids, num_segments, 0);
}
Array segment_prod(const ArrayOperand& x, const ArrayOperand& segment_ids, std::int64_t num_segments) {
  return joined_segments("segment_prod", ops::primitives::scatter_mul(), x, segment_ids, num_segments, 1);
}
Array segment_max(const ArrayOperand& x, const ArrayOperand& segment_ids, std::int64_t num_segments) {
  return joined_segments("segment_max", ops::primitives::scatter_max(), x, segment_ids, num_segments,
                         api::least_value(x.dtype()));
}
Array segment_min(const ArrayOperand& x, const ArrayOperand& segment_ids, std::int64_t num_segments) {
  return joined_segments("segment_min", ops::primitives::scatter_min(), x, segment_ids, num_segments,
                         api::largest_value(x.dtype()));
}

}  // namespace lockstep
