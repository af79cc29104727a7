#include <cmath>
#include <cstddef>
#include <vector>

#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"
#include "engine/ops/window/geometry.h"

namespace lockstep::ops {

namespace {

/// Whether window `o` along spatial dimension `d` has an element inside of x.
bool meets_input(const WindowGeometry& geometry, std::size_t d, std::int64_t o) {
  for (std::int64_t w = 0; w < geometry.window[d]; ++w) {
    const std::int64_t at = o * geometry.strides[d] + w * geometry.dilation[d] - geometry.low[d];
    if (at >= 0 && at < geometry.in[d]) return true;
  }
  return false;
}

std::vector<ArrayType> infer_max(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::real);
  const WindowGeometry geometry = geometry_of_windows(context);
  for (std::size_t d = 0; d < geometry.in.size(); ++d) {
    // With holes, a window that reaches over a short x may still miss it.
    const bool dilated = geometry.dilation[d] > 1;
    const std::int64_t taps = geometry.window[d];
    bool meets = geometry.in[d] > 0 && (dilated || (geometry.low[d] < taps && geometry.high[d] < taps));
    for (std::int64_t o = 0; dilated && meets && o < geometry.out[d]; ++o) meets = meets_input(geometry, d, o);
    if (!meets) {
      infer::shape_error(context,
                         "an element of x in every window: spatial extents of at least 1, padding below the window",
                         "pad less");
    }
  }
  return {{context.inputs[0].dtype, geometry.y(), {}}, {int32, geometry.y(), {}}};
}

std::vector<ir::Tangent> tangents(const ir::JvpContext& context) {
  return {window_gather(*context.tangents[0], context.outputs[1]), std::nullopt};
}

/// Whether `a` comes before `b`: larger, NaN largest.
template <class T>
bool beats(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return a > b;
}

template <class T>
void largest(const ir::ReferenceContext& context, const WindowGeometry& geometry) {
  const std::int64_t plane = geometry.plane_in().size();
  std::int64_t row = 0;
  for (std::int64_t n = 0; n < geometry.batch; ++n) {
    reference::for_each_index(geometry.plane_out(), [&](const Dims& o) {
      for (std::int64_t c = 0; c < geometry.features; ++c) {
        const auto element = [&](std::int64_t position) {
          return reference::load<T>(context.inputs[0], (n * plane + position) * geometry.features + c);
        };
        std::int64_t best = -1;
        for_each_in_window(geometry, o, [&](std::int64_t position) {
          if (best < 0 || beats(element(position), element(best))) best = position;
        });
        reference::store(context.outputs[0], row * geometry.features + c, element(best));
        reference::store(context.outputs[1], row * geometry.features + c, best);
      }
      ++row;
    });
  }
}

void max_reference(const ir::ReferenceContext& context) {
  const std::vector<ArrayType> types = {context.inputs[0].type};
  const WindowGeometry geometry = geometry_of_windows({"window_max", types, context.attrs, {}});
  reference::dispatch<double, std::int64_t, std::uint64_t>(types[0].dtype,
                                                           [&]<class T>() { largest<T>(context, geometry); });
}

std::vector<ir::Sample> max_samples() {
  std::vector<ir::Sample> list;
  for (const WindowCase& c : window_cases()) {
    for (const DType dtype : {float64, float32}) list.push_back({{samples::distinct(dtype, c.x)}, c.attrs, {}});
  }
  for (const DType dtype : {float16, bfloat16, int32, uint8}) {
    list.push_back({{samples::input(dtype, window_cases()[1].x, {0, 9})}, window_cases()[1].attrs, {}});
  }
  return list;
}

std::vector<ir::ErrorSample> window_max_errors() {
  std::vector<ir::ErrorSample> list = window_attr_errors();
  const std::vector<ArrayType> x = {{float32, {2, 5, 3}, {}}};
  list.push_back({x, window_attrs({2}, {1}, {{2, 0}}), "an element of x in every window", {}});
  list.push_back({x, window_attrs({2}, {1}, {{0, 2}}), "padding below the window", {}});
  list.push_back({{{float32, {2, 0, 3}, {}}}, window_attrs({2}, {1}, {{1, 1}}), "spatial extents of at least 1", {}});
  list.push_back({{{complex64, {2, 5, 3}, {}}}, window_attrs({2}, {1}, {{0, 0}}), "a float or integer dtype", {}});
  return list;
}

}  // namespace

const ir::Primitive& primitives::window_max() {
  static const ir::Primitive primitive{
      .name = "window_max",
      .infer = infer_max,
      .derivative = derivative::jvp(tangents),
      .batch = rows_batch_rule(primitives::window_max),
      .reference = max_reference,
      .flops = [](const ir::CostContext& c) { return window_flops(c.outputs[0], c.attrs); },
      .samples = max_samples,
      .error_samples = window_max_errors,
      .traits = {},
      .layout = layout::ends()};
  return primitive;
}

}  // namespace lockstep::ops
