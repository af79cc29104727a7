#include "engine/api/indexing/index_plan.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <lockstep/backend/round_up.h>
#include <lockstep/error.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/operands.h"
#include "engine/core/lists.h"

namespace lockstep::api {

namespace {

bool names_dimension(const Index& index) {
  const auto value = index.value();
  return !std::holds_alternative<NewAxis>(value) && !std::holds_alternative<Ellipsis>(value);
}

}  // namespace

IndexPlan::IndexPlan(std::string_view op, const Array& x, const std::vector<Index>& indices) : x_(x) {
  const auto named = static_cast<int>(std::count_if(indices.begin(), indices.end(), names_dimension));
  if (named > x.ndim()) {
    throw ShapeError(
        fmt::format("{}: {} indices for the {} dimensions of {}", op, named, x.ndim(), to_string(x.shape())));
  }
  const auto is_ellipsis = [](const Index& i) { return std::holds_alternative<Ellipsis>(i.value()); };
  const auto ellipses = std::count_if(indices.begin(), indices.end(), is_ellipsis);
  if (ellipses > 1) throw ShapeError(fmt::format("{}: at most one ellipsis, got {}", op, ellipses));
  for (const Index& index : indices) add_index(op, index, named);
  while (static_cast<int>(dimensions_.size()) < x.ndim()) {
    order_.push_back(static_cast<int>(dimensions_.size()));
    add_all();
  }
  arrange();
}

void IndexPlan::add_index(std::string_view op, const Index& index, int named) {
  const auto value = index.value();
  if (std::holds_alternative<NewAxis>(value)) {
    order_.push_back(-1);
    return;
  }
  if (std::holds_alternative<Ellipsis>(value)) {
    for (int i = named; i < x_.ndim(); ++i) {
      order_.push_back(static_cast<int>(dimensions_.size()));
      add_all();
    }
    return;
  }
  order_.push_back(static_cast<int>(dimensions_.size()));
  if (const auto* slice = std::get_if<Slice>(&value)) return add_slice(op, *slice);
  const std::int64_t extent = next_extent();
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    if (*number < -extent || *number >= extent) {
      throw ValueError(fmt::format("{}: index {} is outside dimension {} of {}", op, *number, dimensions_.size(),
                                   to_string(x_.shape())));
    }
    dimensions_.push_back({Dimension::Kind::integer, *number < 0 ? *number + extent : *number, 1, 1, {}});
    return;
  }
  const Array& array = std::get<Array>(value);
  expect_indices(op, array);
  arrays_shape_ = broadcast_shapes(arrays_shape_, array.shape(), op);
  has_arrays_ = true;
  dimensions_.push_back({Dimension::Kind::array, 0, 1, 1, from_the_end(array, extent)});
}

/// Bounds as Python resolves them.
void IndexPlan::add_slice(std::string_view op, const Slice& slice) {
  if (slice.step == 0) throw ValueError(fmt::format("{}: a slice's step must not be 0", op));
  const std::int64_t extent = next_extent();
  const bool forward = slice.step > 0;
  const auto resolved = [&](const std::optional<std::int64_t>& bound, std::int64_t missing) {
    if (!bound) return missing;
    const std::int64_t from_start = *bound < 0 ? *bound + extent : *bound;
    return std::clamp<std::int64_t>(from_start, forward ? 0 : -1, forward ? extent : extent - 1);
  };
  const std::int64_t start = resolved(slice.start, forward ? 0 : extent - 1);
  const std::int64_t stop = resolved(slice.stop, forward ? extent : -1);
  const std::int64_t distance = forward ? stop - start : start - stop;
  const std::int64_t step = forward ? slice.step : -slice.step;
  const std::int64_t count = distance <= 0 ? 0 : backend::ceil_div(distance, step);
  const bool window = slice.step == 1 || count == 0;
  dimensions_.push_back(
      {window ? Dimension::Kind::window : Dimension::Kind::steps, count == 0 ? 0 : start, count, slice.step, {}});
}

void IndexPlan::append(const Dimension& dimension, std::size_t dim) {
  result_.append(dimension.count);
  if (dimension.kind == Dimension::Kind::window) {
    window_dims_.push_back(windows_.rank());
  } else {
    batch_dims_[dim] = batch_.rank();
    batch_.append(dimension.count);
  }
  windows_.append(dimension.count);
}

void IndexPlan::append_arrays() {
  arrays_at_ = batch_.rank();
  for (const std::int64_t extent : arrays_shape_) {
    result_.append(extent);
    windows_.append(extent);
    batch_.append(extent);
  }
}

/// Integers count as arrays where there are arrays. These stand where the first of them stood, unless something else
/// stands between them: then they come first.
void IndexPlan::arrange() {
  batch_dims_.assign(dimensions_.size(), -1);
  const auto advanced = [&](int dim) {
    if (dim < 0 || !has_arrays_) return false;
    const Dimension::Kind kind = nth(dimensions_, dim).kind;
    return kind == Dimension::Kind::array || kind == Dimension::Kind::integer;
  };
  const auto first = std::find_if(order_.begin(), order_.end(), advanced);
  const auto past = std::find_if_not(first, order_.end(), advanced);
  const bool apart = std::any_of(past, order_.end(), advanced);
  if (apart) append_arrays();
  for (auto it = order_.begin(); it != order_.end(); ++it) {
    if (it == first && !apart) append_arrays();
    if (*it < 0) {
      result_.append(1);
      continue;
    }
    const Dimension& dimension = nth(dimensions_, *it);
    if (dimension.kind == Dimension::Kind::window || dimension.kind == Dimension::Kind::steps) {
      append(dimension, static_cast<std::size_t>(*it));
    }
  }
}

Array IndexPlan::view() const {
  Axes start, limit, strides, reversed;
  for (std::size_t d = 0; d < dimensions_.size(); ++d) {
    const Dimension& dimension = dimensions_[d];
    const bool backward = dimension.step < 0 && dimension.count > 0;
    const std::int64_t step = backward ? -dimension.step : dimension.step < 0 ? 1 : dimension.step;
    const std::int64_t span = dimension.count == 0 ? 0 : (dimension.count - 1) * step + 1;
    const std::int64_t low = backward ? dimension.start - span + 1 : dimension.start;
    start.push_back(low);
    limit.push_back(low + span);
    strides.push_back(step);
    if (backward) reversed.push_back(static_cast<std::int64_t>(d));
  }
  const bool whole = limit == x_.shape().to_vector() &&
                     std::all_of(start.begin(), start.end(), [](std::int64_t i) { return i == 0; }) &&
                     std::all_of(strides.begin(), strides.end(), [](std::int64_t i) { return i == 1; });
  const Array sliced = whole ? x_ : slice(x_, start, limit, strides);
  return reshape(reversed.empty() ? sliced : reverse(sliced, reversed), result_.to_vector());
}

Array IndexPlan::indices() const {
  bool wide = x_.size() > std::numeric_limits<std::int32_t>::max();
  for (const Dimension& dimension : dimensions_) {
    wide = wide || (dimension.kind == Dimension::Kind::array && dimension.indices.dtype() == int64);
  }
  const DType dtype = wide ? int64 : int32;
  Shape column = batch_;
  column.append(1);
  std::vector<Array> columns;
  for (std::size_t d = 0; d < dimensions_.size(); ++d) {
    const Dimension& dimension = dimensions_[d];
    switch (dimension.kind) {
      case Dimension::Kind::window:
        if (dimension.count != x_.shape()[static_cast<int>(d)]) columns.push_back(full(column, dimension.start, dtype));
        break;
      case Dimension::Kind::integer:
        columns.push_back(full(column, dimension.start, dtype));
        break;
      case Dimension::Kind::steps:
        columns.push_back(iota(column, batch_dims_[d], dtype) * dimension.step + dimension.start);
        break;
      case Dimension::Kind::array: {
        // Its dimensions are the last of the arrays' own; behind those stand the slices with steps.
        Axes shape = repeated(column.rank(), 1);
        const int last = arrays_at_ + arrays_shape_.rank() - dimension.indices.ndim();
        for (int i = 0; i < dimension.indices.ndim(); ++i) {
          nth(shape, last + i) = dimension.indices.shape()[i];
        }
        columns.push_back(broadcast_to(reshape(convert(dimension.indices, dtype), shape), column));
        break;
      }
    }
  }
  if (columns.empty()) return zeros(batch_.insert(batch_.rank(), 0), dtype);
  return concatenate(columns, -1);
}

GatherDims IndexPlan::gather_dims() const {
  GatherDims dims{window_dims_, {}, {}};
  for (std::size_t d = 0; d < dimensions_.size(); ++d) {
    const Dimension& dimension = dimensions_[d];
    const auto dim = static_cast<std::int64_t>(d);
    const bool window = dimension.kind == Dimension::Kind::window;
    if (!window) dims.collapsed_slice_dims.push_back(dim);
    if (!window || dimension.count != x_.shape()[static_cast<int>(d)]) dims.start_index_map.push_back(dim);
  }
  return dims;
}

ScatterDims IndexPlan::scatter_dims() const {
  const GatherDims dims = gather_dims();
  return {dims.offset_dims, dims.collapsed_slice_dims, dims.start_index_map};
}

Axes IndexPlan::slice_sizes() const {
  Axes sizes;
  for (const Dimension& dimension : dimensions_) {
    sizes.push_back(dimension.kind == Dimension::Kind::window ? dimension.count : 1);
  }
  return sizes;
}

}  // namespace lockstep::api
