#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/layers_pooling.h>

#include "engine/nn/layers/windows.h"

// Spatial dimensions one after the other: means, largest elements and interpolations of boxes are made of those of
// lines.
namespace lockstep {
namespace {

void check_call(std::string_view layer, const Array& x, const Axes& extents) {
  const int dimensions = nn::spatial_dimensions(layer, x, 10);
  const bool fits = extents.size() == static_cast<std::size_t>(dimensions) &&
                    std::ranges::all_of(extents, [](std::int64_t v) { return v > 0; });
  if (fits) return;
  throw ValueError(fmt::format("[{}] the input is {}, given are [{}]; give {} extents of at least 1", layer,
                               to_string(x.type()), fmt::join(extents, ","), dimensions));
}

struct Range {
  std::int64_t from = 0, to = 0;
};

/// Window i of n over s places.
Range pooled_range(std::int64_t i, std::int64_t n, std::int64_t s) { return {i * s / n, ((i + 1) * s + n - 1) / n}; }

/// Weights [n, s]: how much of each place is in each result.
using Weights = std::vector<double>;

Array multiplied(const Array& x, std::int64_t axis, std::int64_t n, const Weights& weights) {
  const std::int64_t s = x.dim(static_cast<int>(axis));
  const DType dtype = promote(x.dtype(), float32);
  const Array matrix = convert(array(weights, {n, s}), dtype);
  return moveaxis(dot_general(convert(x, dtype), matrix, {{axis}, {1}}), x.ndim() - 1, axis);
}

Weights mean_weights(std::int64_t n, std::int64_t s) {
  Weights weights(static_cast<std::size_t>(n * s));
  for (std::int64_t i = 0; i < n; ++i) {
    const Range w = pooled_range(i, n, s);
    for (std::int64_t j = w.from; j < w.to; ++j) {
      weights[static_cast<std::size_t>(i * s + j)] = 1 / static_cast<double>(w.to - w.from);
    }
  }
  return weights;
}

double triangle(double x) { return std::max(0.0, 1 - x); }

/// Keys 1981, a = -1/2.
double keys_cubic(double x) {
  if (x >= 2) return 0;
  if (x >= 1) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
  return (1.5 * x - 2.5) * x * x + 1;
}

Weights interpolation_weights(std::int64_t n, std::int64_t s, Interpolation method, bool antialias) {
  const double step = static_cast<double>(s) / static_cast<double>(n), width = antialias ? std::max(step, 1.0) : 1.0;
  Weights weights(static_cast<std::size_t>(n * s));
  for (std::int64_t i = 0; i < n; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * step - 0.5;
    double total = 0;
    for (std::int64_t j = 0; j < s; ++j) {
      const double distance = std::abs(middle - static_cast<double>(j)) / width;
      const double weight = method == Interpolation::linear ? triangle(distance) : keys_cubic(distance);
      weights[static_cast<std::size_t>(i * s + j)] = weight;
      total += weight;
    }
    for (std::int64_t j = 0; j < s; ++j) weights[static_cast<std::size_t>(i * s + j)] /= total;
  }
  return weights;
}

/// Of each window the places, the last one again and again where there are fewer than in the largest window.
Array largest_of_windows(const Array& x, std::int64_t axis, std::int64_t n) {
  const std::int64_t s = x.dim(static_cast<int>(axis));
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, pooled_range(i, n, s).to - pooled_range(i, n, s).from);
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < n; ++i) {
    const Range w = pooled_range(i, n, s);
    for (std::int64_t j = 0; j < most; ++j) places.push_back(static_cast<std::int32_t>(std::min(w.from + j, w.to - 1)));
  }
  return max(take(x, array(places, {n, most}), axis, IndexMode::promise_in_bounds), Axes{axis + 1});
}

Array nearest_places(const Array& x, std::int64_t axis, std::int64_t n) {
  const std::int64_t s = x.dim(static_cast<int>(axis));
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < n; ++i) places.push_back(static_cast<std::int32_t>((2 * i + 1) * s / (2 * n)));
  return take(x, array(places), axis, IndexMode::promise_in_bounds);
}

}  // namespace

Array adaptive_avg_pool(const ArrayOperand& x, const Axes& extents) {
  check_call("adaptive_avg_pool", x, extents);
  Array y = x;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 1;
    y = multiplied(y, axis, extents[i], mean_weights(extents[i], x.dim(static_cast<int>(axis))));
  }
  return convert(y, x.dtype());
}

Array adaptive_max_pool(const ArrayOperand& x, const Axes& extents) {
  check_call("adaptive_max_pool", x, extents);
  Array y = x;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    y = largest_of_windows(y, static_cast<std::int64_t>(i) + 1, extents[i]);
  }
  return y;
}

Array resize(const ArrayOperand& x, const Axes& extents, Interpolation method, bool antialias) {
  check_call("resize", x, extents);
  Array y = x;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 1;
    const std::int64_t s = x.dim(static_cast<int>(axis)), n = extents[i];
    if (n == s) continue;
    y = method == Interpolation::nearest ? nearest_places(y, axis, n)
                                         : multiplied(y, axis, n, interpolation_weights(n, s, method, antialias));
  }
  return convert(y, x.dtype());
}

}  // namespace lockstep
