#include "engine/nn/layers/windows.h"

#include <algorithm>
#include <string>

#include <fmt/ranges.h>

#include <lockstep/error.h>

namespace lockstep::nn {
namespace {

/// What Keras and TensorFlow call "same": ceil(size / stride) results, the smaller half of the padding in front.
Pair same_padding(std::int64_t size, std::int64_t reach, std::int64_t stride) {
  const std::int64_t results = (size + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>((results - 1) * stride + reach - size, 0);
  return {total / 2, total - total / 2};
}

}  // namespace

void check_image(std::string_view layer, const Array& x) {
  if (x.ndim() == 4 && is_float(x.dtype())) return;
  throw ShapeError("[" + std::string(layer) + "] the input is " + to_string(x.type()) +
                   "; give float images [N, H, W, C] (channels last)");
}

int spatial_dimensions(std::string_view layer, const Array& x, int most) {
  if (x.ndim() >= 3 && x.ndim() <= most + 2 && is_float(x.dtype())) return x.ndim() - 2;
  throw ShapeError("[" + std::string(layer) + "] the input is " + to_string(x.type()) +
                   "; give floats [N, spatial..., C] (channels last) of one to " + std::to_string(most) +
                   " spatial dimensions");
}

void check_counts(std::string_view layer, std::string_view what, const Axes& given) {
  if (std::ranges::all_of(given, [](std::int64_t v) { return v >= 1; })) return;
  throw ValueError(fmt::format("[{}] {} are [{}]; give numbers of at least 1", layer, what, fmt::join(given, ",")));
}

Axes for_each_dimension(std::string_view layer, std::string_view what, const Axes& given, int dimensions) {
  const bool fits = given.size() == 1 || given.size() == static_cast<std::size_t>(dimensions);
  if (!fits || std::ranges::any_of(given, [](std::int64_t v) { return v < 1; })) {
    throw ValueError(fmt::format("[{}] {} are [{}]; give one number of at least 1, or {}", layer, what,
                                 fmt::join(given, ","), dimensions));
  }
  return given.size() == 1 ? Axes(static_cast<std::size_t>(dimensions), given[0]) : given;
}

std::vector<Pair> padding_of(Padding padding, const Array& x, const Axes& window, const Axes& strides,
                             const Axes& dilation) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < window.size(); ++i) {
    const std::int64_t reach = (window[i] - 1) * dilation[i] + 1;
    if (padding == Padding::valid) {
      pairs.emplace_back(0, 0);
    } else if (padding == Padding::half) {
      pairs.emplace_back(reach / 2, reach / 2);
    } else if (padding == Padding::causal && i == 0) {
      pairs.emplace_back(reach - 1, 0);
    } else {
      pairs.push_back(same_padding(x.dim(static_cast<int>(i) + 1), reach, strides[i]));
    }
  }
  return pairs;
}

}  // namespace lockstep::nn
