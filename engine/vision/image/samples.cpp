#include "engine/vision/image/samples.h"

#include <optional>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/core/lists.h"

namespace lockstep::image {

namespace {

/// A neighbour along one dimension.
struct SampleNeighbour {
  Array index;
  std::optional<Array> share;   ///< Nothing: all of it.
  std::optional<Array> inside;  ///< Nothing: it always is.
};

/// Mirrored at the first and the last element.
Array mirrored_indices(const Array& index, std::int64_t size) {
  const std::int64_t last = size - 1;
  if (last == 0) return zeros_like(index);
  return abs(remainder(index + last, 2 * last) - last);
}

SampleNeighbour fixed(const Array& index, const std::optional<Array>& share, std::int64_t size, Outside outside) {
  switch (outside) {
    case Outside::nearest:
      return {clip(index, 0, size - 1), share, {}};
    case Outside::wrap:
      return {remainder(index, size), share, {}};
    case Outside::mirror:
      return {mirrored_indices(index, size), share, {}};
    case Outside::reflect:
      return {floor_divide(mirrored_indices(2 * index + 1, 2 * size + 1) - 1, 2), share, {}};
    case Outside::constant:
      break;
  }
  return {clip(index, 0, size - 1), share, logical_and(index >= 0, index < size)};
}

Array away_from_zero(const Array& x) {
  if (is_integer(x.dtype())) return x;
  return sign(x) * floor(abs(x) + 0.5);
}

std::vector<SampleNeighbour> neighbours(const Array& coordinate, std::int64_t size, const MapOptions& options) {
  if (options.order == 0) {
    const Array index = convert(away_from_zero(coordinate), int32);
    return {fixed(index, ones_like(coordinate), size, options.outside)};
  }
  const Array low = floor(coordinate);
  const Array upper = coordinate - low, index = convert(low, int32);
  return {fixed(index, 1 - upper, size, options.outside), fixed(index + 1, upper, size, options.outside)};
}

/// Behind each place, the dimensions that stay.
Array over_others(const Array& x, int others) {
  Axes axes;
  for (int d = 0; d < others; ++d) axes.push_back(x.ndim() + d);
  return others == 0 ? x : expand_dims(x, axes);
}

/// One neighbour in each dimension: its element times all shares.
Array contribution(const Array& x, const std::vector<SampleNeighbour>& chosen, double cval) {
  std::vector<Index> indices;
  std::optional<Array> share, inside;
  const int others = x.ndim() - static_cast<int>(chosen.size());
  for (const SampleNeighbour& neighbour : chosen) {
    indices.emplace_back(neighbour.index);
    if (neighbour.share) share = share ? *share * *neighbour.share : *neighbour.share;
    if (neighbour.inside) inside = inside ? logical_and(*inside, *neighbour.inside) : *neighbour.inside;
  }
  const Array element = Place(x, indices).get(IndexMode::promise_in_bounds);
  const Array held = inside ? where(over_others(*inside, others), element, cval) : element;
  return over_others(*share, others) * held;
}

/// Each row of a batch at its own places.
std::vector<SampleNeighbour> own_row(const Array& coordinate) {
  Shape shape;
  shape = shape.insert(0, coordinate.dim(0));
  for (int d = 1; d < coordinate.ndim(); ++d) shape = shape.insert(d, 1);
  const Array row = reshape(arange(coordinate.dim(0), int32), shape.to_vector());
  return {{broadcast_to(row, coordinate.shape()), {}, {}}};
}

}  // namespace

Array samples(std::string_view op, const Array& x, const std::vector<Array>& coordinates, bool batched,
              const MapOptions& options) {
  if (options.order != 0 && options.order != 1) {
    throw ValueError(fmt::format("{}: order is {}; expected 0 (the nearest element) or 1 (linear)", op, options.order));
  }
  std::vector<std::vector<SampleNeighbour>> along;
  if (batched) along.push_back(own_row(coordinates[0]));
  std::size_t count = 1;
  for (const Array& given : coordinates) {
    const int d = static_cast<int>(along.size());
    if (given.shape() != coordinates[0].shape()) {
      throw ShapeError(fmt::format("{}: coordinates are {} and {}; expected one shape", op,
                                   to_string(coordinates[0].shape()), to_string(given.shape())));
    }
    if (x.dim(d) == 0) {
      throw ShapeError(fmt::format("{}: {} has no elements; expected at least one", op, to_string(x.shape())));
    }
    along.push_back(neighbours(convert(given, api::widened(given.dtype())), x.dim(d), options));
    count *= along.back().size();
  }
  Array total;
  for (std::size_t n = 0; n < count; ++n) {
    std::vector<SampleNeighbour> chosen;
    std::size_t rest = n;
    for (const auto& choices : along) {
      chosen.push_back(choices[rest % choices.size()]);
      rest /= choices.size();
    }
    const Array part = contribution(x, chosen, options.cval);
    total = n == 0 ? part : total + part;
  }
  return convert(is_integer(x.dtype()) ? away_from_zero(total) : total, x.dtype());
}

Array map_coordinates(const ArrayOperand& x, const ArrayOperands& coordinates, const MapOptions& options) {
  const std::string_view op = "image.map_coordinates";
  if (x.ndim() == 0 || coordinates.size() != static_cast<std::size_t>(x.ndim())) {
    throw ShapeError(fmt::format("{}: {} arrays of coordinates for {}; give one for each dimension", op,
                                 coordinates.size(), to_string(x.shape())));
  }
  return samples(op, x, {coordinates.begin(), coordinates.end()}, false, options);
}

}  // namespace lockstep::image
