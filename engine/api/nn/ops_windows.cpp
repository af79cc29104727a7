#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

using PaddingAttr = std::vector<std::vector<std::int64_t>>;

int spatial_rank(std::string_view op, const Array& x) {
  if (x.ndim() < 3) {
    throw ShapeError(fmt::format("{}: needs x of shape [N, spatial..., C], got {}", op, to_string(x.shape())));
  }
  return x.ndim() - 2;
}

void check_spatial_count(std::string_view op, std::string_view what, std::size_t given, int expected) {
  if (given != static_cast<std::size_t>(expected)) {
    throw ShapeError(fmt::format("{}: {} has {} entries, x has {} spatial dimensions", op, what, given, expected));
  }
}

Axes per_dimension(std::string_view op, std::string_view what, const Axes& given, const Axes& neutral) {
  if (given.empty()) return neutral;
  check_spatial_count(op, what, given.size(), static_cast<int>(neutral.size()));
  return given;
}

PaddingAttr padding_of(std::string_view op, const std::vector<std::pair<std::int64_t, std::int64_t>>& given,
                       int spatial) {
  if (given.empty()) return PaddingAttr(static_cast<std::size_t>(spatial), {0, 0});
  check_spatial_count(op, "padding", given.size(), spatial);
  PaddingAttr pairs;
  for (const auto& [low, high] : given) pairs.push_back({low, high});
  return pairs;
}

Attrs window_attrs(std::string_view op, const Array& x, const WindowOptions& options) {
  const int spatial = spatial_rank(op, x);
  check_spatial_count(op, "window", options.window.size(), spatial);
  return {{"window", options.window},
          {"strides", per_dimension(op, "strides", options.strides, options.window)},
          {"padding", padding_of(op, options.padding, spatial)}};
}

}  // namespace

Array conv(const ArrayOperand& x, const ArrayOperand& kernel, const ConvOptions& options) {
  const int spatial = spatial_rank(__func__, x);
  const Axes ones = repeated(spatial, 1);
  const Operand left = x;
  const Operand right = kernel;
  const DType dtype = api::numeric(api::common_dtype({&left, &right}));
  return api::bind_one(ops::primitives::conv(), {convert(x, dtype), convert(kernel, dtype)},
                       {{"strides", per_dimension(__func__, "strides", options.strides, ones)},
                        {"padding", padding_of(__func__, options.padding, spatial)},
                        {"dilation", per_dimension(__func__, "dilation", options.dilation, ones)},
                        {"groups", options.groups}});
}

Array window_max(const ArrayOperand& x, const WindowOptions& options) {
  return api::bind_one(ops::primitives::window_max(), {x}, window_attrs(__func__, x, options));
}

Array window_mean(const ArrayOperand& x, const WindowOptions& options) {
  const Attrs attrs = window_attrs("window_mean", x, options);
  const DType dtype = api::inexact(x.dtype());
  const Array value = convert(x, api::widened(dtype));
  const Array total = api::bind_one(ops::primitives::window_sum(), {value}, attrs);
  const auto& padding = attrs.get<PaddingAttr>("padding");
  const bool padded = std::any_of(padding.begin(), padding.end(), [](const auto& p) { return p[0] != 0 || p[1] != 0; });
  if (!padded) {
    double elements = 1;
    for (const std::int64_t extent : options.window) elements *= static_cast<double>(extent);
    return convert(div(total, elements), dtype);
  }
  const Array inside = ones(x.shape().with(0, 1).with(x.ndim() - 1, 1), value.dtype());
  return convert(div(total, api::bind_one(ops::primitives::window_sum(), {inside}, attrs)), dtype);
}

}  // namespace lockstep
