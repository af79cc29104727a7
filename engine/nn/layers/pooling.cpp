#include <algorithm>
#include <string>

#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/layers_pooling.h>
#include <lockstep/manipulation.h>

#include "engine/nn/layers/windows.h"

namespace lockstep {
namespace {

WindowOptions window_options(std::string_view layer, const Array& x, const Pool2dOptions& options) {
  nn::check_image(layer, x);
  const Axes window = {options.window.first, options.window.second};
  const Axes strides = {options.strides.first == 0 ? window[0] : options.strides.first,
                        options.strides.second == 0 ? window[1] : options.strides.second};
  nn::check_counts(layer, "extents of the window", window);
  nn::check_counts(layer, "strides", strides);
  return {.window = window, .strides = strides, .padding = nn::padding_of(options.padding, x, window, strides, {1, 1})};
}

/// Throws ShapeError where there are none.
Axes spatial_axes(std::string_view layer, const Array& x) {
  Axes axes;
  for (int i = 1; i <= nn::spatial_dimensions(layer, x, 10); ++i) axes.push_back(i);
  return axes;
}

void check_extents(std::string_view layer, const Array& x, const Axes& axes, const Axes& given) {
  if (given.size() == axes.size() && std::ranges::all_of(given, [](std::int64_t v) { return v > 0; })) return;
  throw ValueError(fmt::format("[{}] the input is {}, given are [{}]; give {} numbers of at least 1", layer,
                               to_string(x.type()), fmt::join(given, ","), axes.size()));
}

}  // namespace

Array max_pool2d(const ArrayOperand& x, const Pool2dOptions& options) {
  return window_max(x, window_options("max_pool2d", x, options));
}

Array max_pool2d(const ArrayOperand& x, nn::Pair window) { return max_pool2d(x, Pool2dOptions{.window = window}); }

Array avg_pool2d(const ArrayOperand& x, const Pool2dOptions& options) {
  return window_mean(x, window_options("avg_pool2d", x, options));
}

Array avg_pool2d(const ArrayOperand& x, nn::Pair window) { return avg_pool2d(x, Pool2dOptions{.window = window}); }

Array global_avg_pool2d(const ArrayOperand& x) {
  nn::check_image("global_avg_pool2d", x);
  return mean(x, Axes{1, 2});
}

Array global_avg_pool(const ArrayOperand& x) { return mean(x, spatial_axes("global_avg_pool", x)); }

Array global_max_pool(const ArrayOperand& x) { return max(x, spatial_axes("global_max_pool", x)); }

Array upsample(const ArrayOperand& x, const Axes& factors) {
  const Axes axes = spatial_axes("upsample", x);
  check_extents("upsample", x, axes, factors);
  Array y = x;
  for (std::size_t i = 0; i < axes.size(); ++i) y = repeat(y, factors[i], axes[i]);
  return y;
}

}  // namespace lockstep
