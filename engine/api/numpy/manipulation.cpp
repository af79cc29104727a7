#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

Axes all_axes(int rank) {
  Axes axes = repeated(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

void expect_least_rank(std::string_view op, const Array& x, int rank) {
  if (x.ndim() >= rank) return;
  throw ShapeError(fmt::format("{}: needs an array of rank {} or more, got {}", op, rank, to_string(x.shape())));
}

/// Elements `shift` further on along `dim`.
Array rolled(const Array& x, std::int64_t shift, int dim) {
  const std::int64_t extent = x.shape()[dim];
  if (extent == 0) return x;
  const std::int64_t by = (shift % extent + extent) % extent;
  if (by == 0) return x;
  return concatenate({slice_in_dim(x, extent - by, extent, dim), slice_in_dim(x, 0, extent - by, dim)}, dim);
}

/// x[0] + ... + x[i] of a vector of integers, by doubling.
Array prefix_sums(const Array& x) {
  Array sums = x;
  for (std::int64_t shift = 1; shift < x.size(); shift *= 2) sums = sums + pad(sums, 0, {shift}, {-shift});
  return sums;
}

/// Which element of a dimension of `extent` stands at position `i`, counted from the first one of x.
std::int64_t source_of(std::int64_t i, std::int64_t extent, PadMode mode) {
  const auto modulo = [](std::int64_t a, std::int64_t n) { return (a % n + n) % n; };
  switch (mode) {
    case PadMode::edge:
      return std::clamp<std::int64_t>(i, 0, extent - 1);
    case PadMode::wrap:
      return modulo(i, extent);
    case PadMode::symmetric: {
      const std::int64_t at = modulo(i, 2 * extent);
      return at < extent ? at : 2 * extent - 1 - at;
    }
    case PadMode::reflect:
      break;
  }
  if (extent == 1) return 0;
  const std::int64_t at = modulo(i, 2 * extent - 2);
  return at < extent ? at : 2 * extent - 2 - at;
}

/// Positions [first, last) of the padded dimension, in runs of neighbours that are slices of x, forward or backward.
void append_padding(Arrays& pieces, const Array& x, int dim, std::int64_t first, std::int64_t last, PadMode mode) {
  const std::int64_t extent = x.shape()[dim];
  for (std::int64_t i = first; i < last;) {
    const std::int64_t begin = source_of(i, extent, mode);
    std::int64_t length = 1;
    std::int64_t direction = 0;
    for (; i + length < last; ++length) {
      const std::int64_t step = source_of(i + length, extent, mode) - source_of(i + length - 1, extent, mode);
      if (length == 1) direction = step;
      if (step != direction || std::abs(step) > 1) break;
    }
    if (direction == 0 && length > 1) {
      pieces.push_back(repeat(slice_in_dim(x, begin, begin + 1, dim), length, dim));
    } else if (direction < 0 && length > 1) {
      pieces.push_back(reverse(slice_in_dim(x, begin - length + 1, begin + 1, dim), {dim}));
    } else {
      pieces.push_back(slice_in_dim(x, begin, begin + length, dim));
    }
    i += length;
  }
}

}  // namespace

Array ravel(const ArrayOperand& x) { return reshape(x, {x.size()}); }

Array squeeze(const ArrayOperand& x) {
  Axes axes;
  for (int d = 0; d < x.ndim(); ++d) {
    if (x.shape()[d] == 1) axes.push_back(d);
  }
  return squeeze(x, axes);
}

Array expand_dims(const ArrayOperand& x, const Axes& axes) {
  const int rank = x.ndim() + static_cast<int>(axes.size());
  Axes sorted;
  for (const std::int64_t axis : axes) sorted.push_back(normalize_axis(axis, rank, "expand_dims"));
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw ShapeError(fmt::format("expand_dims: axes must differ, got [{}]", fmt::join(axes, ",")));
  }
  Shape shape = x.shape();
  for (const std::int64_t axis : sorted) shape = shape.insert(static_cast<int>(axis), 1);
  return reshape(x, shape.to_vector());
}

Array moveaxis(const ArrayOperand& x, const Axes& from, const Axes& to) {
  if (from.size() != to.size()) {
    throw ShapeError(fmt::format("moveaxis: {} axes to {} places; give one place per axis", from.size(), to.size()));
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> moves;
  Axes rest = all_axes(x.ndim());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t axis = normalize_axis(from[i], x.ndim(), "moveaxis");
    moves.emplace_back(normalize_axis(to[i], x.ndim(), "moveaxis"), axis);
    std::erase(rest, axis);
  }
  std::sort(moves.begin(), moves.end());
  const auto same_place = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::adjacent_find(moves.begin(), moves.end(), same_place) != moves.end() ||
      std::ssize(rest) + std::ssize(moves) != x.ndim()) {
    throw ShapeError(fmt::format("moveaxis: axes [{}] to [{}] name one twice; give each axis a place of its own",
                                 fmt::join(from, ","), fmt::join(to, ",")));
  }
  for (const auto& [place, axis] : moves)
    rest.insert(rest.begin() + std::min<std::ptrdiff_t>(place, std::ssize(rest)), axis);
  return transpose(x, rest);
}

Array rollaxis(const ArrayOperand& x, std::int64_t axis, std::int64_t start) {
  const int from = normalize_axis(axis, x.ndim(), "rollaxis");
  const int before = start == x.ndim() ? x.ndim() : normalize_axis(start, x.ndim(), "rollaxis");
  return moveaxis(x, from, from < before ? before - 1 : before);
}

Array atleast_1d(const ArrayOperand& x) { return x.ndim() >= 1 ? Array(x) : reshape(x, {1}); }
Array atleast_2d(const ArrayOperand& x) { return x.ndim() >= 2 ? Array(x) : expand_dims(atleast_1d(x), 0); }
Array atleast_3d(const ArrayOperand& x) { return x.ndim() >= 3 ? Array(x) : expand_dims(atleast_2d(x), -1); }

Arrays broadcast_arrays(const ArrayOperands& arrays) {
  Shape shape;
  for (const Array& x : arrays) shape = broadcast_shapes(shape, x.shape(), "broadcast_arrays");
  Arrays result;
  for (const Array& x : arrays) result.push_back(broadcast_to(x, shape));
  return result;
}

Array flip(const ArrayOperand& x, const OptionalAxes& axes) {
  return reverse(x, api::resolve_axes(axes, x.ndim(), __func__));
}

Array fliplr(const ArrayOperand& x) {
  expect_least_rank("fliplr", x, 2);
  return reverse(x, {1});
}

Array flipud(const ArrayOperand& x) {
  expect_least_rank("flipud", x, 1);
  return reverse(x, {0});
}

Array roll(const ArrayOperand& x, std::int64_t shift, const std::optional<std::int64_t>& axis) {
  if (axis) return rolled(x, shift, normalize_axis(*axis, x.ndim(), "roll"));
  return reshape(rolled(ravel(x), shift, 0), x.shape().to_vector());
}

Array roll(const ArrayOperand& x, const Axes& shifts, const Axes& axes) {
  if (shifts.size() != axes.size()) {
    throw ShapeError(fmt::format("roll: {} shifts for {} axes; give one shift per axis", shifts.size(), axes.size()));
  }
  Array result = x;
  for (std::size_t i = 0; i < axes.size(); ++i) result = roll(result, shifts[i], axes[i]);
  return result;
}

Array rot90(const ArrayOperand& x, std::int64_t k, std::pair<std::int64_t, std::int64_t> axes) {
  const int a = normalize_axis(axes.first, x.ndim(), "rot90");
  const int b = normalize_axis(axes.second, x.ndim(), "rot90");
  if (a == b) throw ShapeError(fmt::format("rot90: the axes must differ, got {} twice", axes.first));
  switch ((k % 4 + 4) % 4) {
    case 0:
      return x;
    case 1:
      return swapaxes(reverse(x, {b}), a, b);
    case 2:
      return reverse(x, {a, b});
    default:
      return reverse(swapaxes(x, a, b), {b});
  }
}

Array tile(const ArrayOperand& x, const Axes& counts) {
  const int rank = std::max(x.ndim(), static_cast<int>(counts.size()));
  Axes extents, wide, shape, result;
  for (int d = 0; d < rank; ++d) {
    const int of_x = d - (rank - x.ndim());
    const int of_counts = d - (rank - static_cast<int>(counts.size()));
    const std::int64_t extent = of_x < 0 ? 1 : x.shape()[of_x];
    const std::int64_t count = of_counts < 0 ? 1 : nth(counts, of_counts);
    if (count < 0) throw ValueError(fmt::format("tile: counts must not be negative, got {}", count));
    extents.push_back(extent);
    wide.insert(wide.end(), {1, extent});
    shape.insert(shape.end(), {count, extent});
    result.push_back(count * extent);
  }
  if (2 * rank <= Shape::max_rank) return reshape(broadcast_to(reshape(x, wide), Shape(shape)), result);
  Array joined = reshape(x, extents);
  for (int d = 0; d < rank; ++d) {
    const std::int64_t count = nth(shape, 2 * d);
    joined = repeat(expand_dims(joined, 0), count, 0);  // at most one dimension more than x at a time
    joined = reshape(moveaxis(joined, 0, d), joined.shape().erase(0).with(d, count * nth(extents, d)).to_vector());
  }
  return joined;
}

Array repeat(const ArrayOperand& x, std::int64_t count, const std::optional<std::int64_t>& axis) {
  if (count < 0) throw ValueError(fmt::format("repeat: the count must not be negative, got {}", count));
  if (!axis) return repeat(ravel(x), count, 0);
  const int dim = normalize_axis(*axis, x.ndim(), "repeat");
  const Array column = expand_dims(x, dim + 1);
  return reshape(broadcast_to(column, column.shape().with(dim + 1, count)),
                 x.shape().with(dim, x.shape()[dim] * count).to_vector());
}

Array repeat(const ArrayOperand& x, const ArrayOperand& counts, std::int64_t total_repeat_length,
             const std::optional<std::int64_t>& axis) {
  if (!axis) return repeat(ravel(x), counts, total_repeat_length, 0);
  const int dim = normalize_axis(*axis, x.ndim(), "repeat");
  const std::int64_t extent = x.shape()[dim];
  if (counts.dtype() != bool_) api::expect_integers("repeat", counts, "counts");
  if (counts.ndim() > 1 || (counts.size() != 1 && counts.size() != extent)) {
    throw ShapeError(fmt::format("repeat: needs one count, or one for each of the {} elements, got counts of shape {}",
                                 extent, to_string(counts.shape())));
  }
  if (total_repeat_length < 0) {
    throw ValueError(fmt::format("repeat: total_repeat_length must not be negative, got {}", total_repeat_length));
  }
  // A mark where each element's repetitions end; as many ends as lie at or before a position, so many elements precede.
  const Array ends = prefix_sums(broadcast_to(reshape(maximum(convert(counts, int64), 0), {counts.size()}), {extent}));
  const Array marks =
      scatter_add(zeros({total_repeat_length}, int64), expand_dims(ends, -1), ones({extent}, int64), {{}, {0}, {0}});
  const Array element = prefix_sums(marks);
  return take(x, element, dim, IndexMode::clip);
}

Array pad(const ArrayOperand& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths, PadMode mode) {
  if (static_cast<int>(widths.size()) != x.ndim()) {
    throw ShapeError(fmt::format("pad: {} widths for an array of shape {}; give (low, high) per dimension",
                                 widths.size(), to_string(x.shape())));
  }
  Array result = x;
  for (int d = 0; d < x.ndim(); ++d) {
    const auto [low, high] = nth(widths, d);
    if (low < 0 || high < 0) {
      throw ValueError(fmt::format("pad: widths must not be negative, got ({}, {}); slice to crop", low, high));
    }
    if (low == 0 && high == 0) continue;
    const std::int64_t extent = x.shape()[d];
    if (extent == 0) {
      throw ShapeError(fmt::format("pad: dimension {} of {} has no element to pad with; pad with a constant", d,
                                   to_string(x.shape())));
    }
    Arrays pieces;
    append_padding(pieces, result, d, -low, 0, mode);
    pieces.push_back(result);
    append_padding(pieces, result, d, extent, extent + high, mode);
    result = concatenate(pieces, d);
  }
  return result;
}

Array pad(const ArrayOperand& x, const Operand& value, const Axes& low, const Axes& high, const Axes& interior) {
  const auto rank = static_cast<std::size_t>(x.ndim());
  if (low.size() != rank || high.size() != rank || interior.size() != rank) {
    throw ShapeError(
        fmt::format("pad: low, high and interior have {}, {} and {} entries for an array of shape {}; give "
                    "one per dimension",
                    low.size(), high.size(), interior.size(), to_string(x.shape())));
  }
  return api::bind_one(ops::primitives::pad(), {x, api::at(__func__, value, x.dtype(), Shape{})},
                       {{"low", low}, {"high", high}, {"interior", interior}});
}

}  // namespace lockstep
