#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/convolution.h>
#include <lockstep/error.h>
#include <lockstep/manipulation.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

using WindowPadding = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Windows whose parameters are complete.
struct Windows {
  Axes window, strides, dilation;
  WindowPadding padding;

  Attrs attrs() const {
    std::vector<Axes> pairs;
    for (const auto& [low, high] : padding) pairs.push_back({low, high});
    const Attrs attrs = {{"window", window}, {"strides", strides}, {"padding", pairs}};
    const bool plain = std::all_of(dilation.begin(), dilation.end(), [](std::int64_t n) { return n == 1; });
    return plain ? attrs : attrs.with("dilation", dilation);
  }
};

Axes complete(std::string_view op, std::string_view what, const Axes& given, const Axes& missing) {
  const Axes& result = given.empty() ? missing : given;
  if (result.size() == missing.size() && std::all_of(result.begin(), result.end(), [](auto n) { return n >= 1; })) {
    return result;
  }
  throw ShapeError(fmt::format("{}: {} must be {} numbers of 1 or more, one per dimension, got [{}]", op, what,
                               missing.size(), fmt::join(given, ",")));
}

/// Padding below 0 crops x beforehand; the windows keep what is left.
Array cropped(const Array& x, Windows& windows) {
  Axes low, high;
  bool any = false;
  for (auto& [before, after] : windows.padding) {
    low.push_back(std::min<std::int64_t>(before, 0));
    high.push_back(std::min<std::int64_t>(after, 0));
    before -= low.back();
    after -= high.back();
    any = any || low.back() < 0 || high.back() < 0;
  }
  if (!any) return x;
  low.insert(low.begin(), 0);
  low.push_back(0);
  high.insert(high.begin(), 0);
  high.push_back(0);
  return pad(x, 0, low, high);
}

Array window_sums(const Array& x, Windows windows) {
  const Array input = cropped(x, windows);
  return api::bind_one(ops::primitives::window_sum(), {input}, windows.attrs());
}

Array window_maxima(const Array& x, Windows windows) {
  const Array input = cropped(x, windows);
  return api::bind_one(ops::primitives::window_max(), {input}, windows.attrs());
}

/// What turns maxima into minima: it reverses the order of a dtype exactly.
Array reversed_order(const Array& x) { return is_integer(x.dtype()) ? ~x : -x; }

Array window_minima(const Array& x, const Windows& windows) {
  return reversed_order(window_maxima(reversed_order(x), windows));
}

Windows pool_windows(std::string_view op, const Array& x, const PoolOptions& options) {
  if (x.ndim() < 3) {
    throw ShapeError(fmt::format("{}: needs x of shape [N, spatial..., C], got {}", op, to_string(x.shape())));
  }
  const Axes extents = {x.shape().begin() + 1, x.shape().end() - 1};
  const Axes ones(extents.size(), 1);
  Windows windows;
  windows.window = options.window.empty() ? Axes{} : complete(op, "window", options.window, ones);
  if (windows.window.empty()) throw ShapeError(fmt::format("{}: a window must be given, one extent per dimension", op));
  windows.strides = complete(op, "strides", options.strides, windows.window);
  windows.dilation = complete(op, "dilation", options.dilation, ones);
  windows.padding = resolve_padding(options.padding, extents, windows.window, windows.strides, windows.dilation);
  return windows;
}

/// x of any rank as [1, all dimensions, 1], dilated by `base_dilation` with `between`.
struct Planes {
  Array x;
  Windows windows;
};

Planes planes_of(std::string_view op, const Array& x, const ReduceWindowOptions& options, const Operand& between) {
  const Axes ones = repeated(x.ndim(), 1);
  if (x.ndim() == 0 || x.ndim() > Shape::max_rank - 2) {
    throw ShapeError(
        fmt::format("{}: needs an array of rank 1 to {}, got {}", op, Shape::max_rank - 2, to_string(x.shape())));
  }
  if (options.window.empty()) {
    throw ShapeError(fmt::format("{}: a window must be given, one extent per dimension", op));
  }
  Windows windows;
  windows.window = complete(op, "window", options.window, ones);
  windows.strides = complete(op, "strides", options.strides, ones);
  windows.dilation = complete(op, "window_dilation", options.window_dilation, ones);
  const Axes base = complete(op, "base_dilation", options.base_dilation, ones);
  Array dilated = x;
  if (base != ones) {
    Axes interior;
    for (const std::int64_t n : base) interior.push_back(n - 1);
    const Axes none(ones.size(), 0);
    dilated = pad(x, between, none, none, interior);
  }
  windows.padding =
      resolve_padding(options.padding, dilated.shape().to_vector(), windows.window, windows.strides, windows.dilation);
  return {expand_dims(dilated, Axes{0, -1}), windows};
}

Array without_ends(const Array& y) { return squeeze(y, {0, -1}); }

}  // namespace

Array reduce_window_sum(const ArrayOperand& x, const ReduceWindowOptions& options) {
  const Planes planes = planes_of("reduce_window_sum", x, options, 0);
  return without_ends(window_sums(planes.x, planes.windows));
}

Array reduce_window_max(const ArrayOperand& x, const ReduceWindowOptions& options) {
  const Planes planes = planes_of("reduce_window_max", x, options, api::least_value(x.dtype()));
  return without_ends(window_maxima(planes.x, planes.windows));
}

Array reduce_window_min(const ArrayOperand& x, const ReduceWindowOptions& options) {
  const Planes planes = planes_of("reduce_window_min", x, options, api::largest_value(x.dtype()));
  return without_ends(window_minima(planes.x, planes.windows));
}

Array max_pool(const ArrayOperand& x, const PoolOptions& options) {
  return window_maxima(x, pool_windows("max_pool", x, options));
}

Array min_pool(const ArrayOperand& x, const PoolOptions& options) {
  return window_minima(x, pool_windows("min_pool", x, options));
}

Array sum_pool(const ArrayOperand& x, const PoolOptions& options) {
  return window_sums(x, pool_windows("sum_pool", x, options));
}

Array avg_pool(const ArrayOperand& x, const PoolOptions& options, bool count_include_pad) {
  const Windows windows = pool_windows("avg_pool", x, options);
  const DType dtype = api::inexact(x.dtype());
  const Array value = convert(x, api::widened(dtype));
  const Array total = window_sums(value, windows);
  const bool padded = std::any_of(windows.padding.begin(), windows.padding.end(),
                                  [](const auto& p) { return p.first > 0 || p.second > 0; });
  if (!padded || count_include_pad) {
    double elements = 1;
    for (const std::int64_t extent : windows.window) elements *= static_cast<double>(extent);
    return convert(div(total, elements), dtype);
  }
  const Array inside = ones(x.shape().with(0, 1).with(x.ndim() - 1, 1), value.dtype());
  return convert(div(total, window_sums(inside, windows)), dtype);
}

}  // namespace lockstep
