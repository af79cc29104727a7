#include <string>

#include <fmt/format.h>

#include <lockstep/convolution.h>
#include <lockstep/einsum.h>
#include <lockstep/error.h>
#include <lockstep/layers_convolution.h>

#include "engine/nn/layers/windows.h"

namespace lockstep {
namespace {

/// Options with an entry for each spatial dimension.
struct Windows {
  Axes kernel, strides, dilation;
};

struct Call {
  std::string_view layer;
  const Scope& scope;
  const Array& x;
  const ConvLayerOptions& options;

  std::string name() const { return fmt::format("{} '{}'", layer, scope.path()); }
};

Windows windows_of(const Call& call) {
  const int dimensions = nn::spatial_dimensions(call.name(), call.x, 3);
  const auto of_each = [&](std::string_view what, const Axes& given) {
    return nn::for_each_dimension(call.name(), what, given, dimensions);
  };
  return {of_each("kernel", call.options.kernel), of_each("strides", call.options.strides),
          of_each("dilation", call.options.dilation)};
}

void check_counts(const Call& call, std::int64_t filters, std::int64_t groups) {
  const std::int64_t channels = call.x.dim(-1);
  if (filters > 0 && groups > 0 && channels % groups == 0 && filters % groups == 0 && call.options.multiplier > 0) {
    return;
  }
  throw ValueError(
      fmt::format("[{}] {} channels, {} filters, {} groups, multiplier {}; all are at least 1, and groups "
                  "divides channels and filters",
                  call.name(), channels, filters, groups, call.options.multiplier));
}

/// Which options that not all of these layers have a layer reads.
struct Reads {
  bool groups = false;
  bool multiplier = false;
  bool output_padding = false;
};

void check_unread(const Call& call, const Reads& reads) {
  const auto refuse = [&](const std::string& given, std::string_view instead) {
    throw ValueError(fmt::format("[{}] {}, which this layer does not read; {}", call.name(), given, instead));
  };
  const ConvLayerOptions& o = call.options;
  if (!reads.groups && o.groups != 1) refuse(fmt::format("there are {} groups", o.groups), "conv has groups");
  if (!reads.multiplier && o.multiplier != 1) {
    refuse(fmt::format("the multiplier is {}", o.multiplier), "depthwise_conv and separable_conv have one");
  }
  if (!reads.output_padding && !o.output_padding.empty()) {
    refuse("there is an output padding", "conv_transpose has one");
  }
}

Array convolution_kernel(const Call& call, std::string_view name, const Axes& window, std::int64_t in, std::int64_t out,
                         bool last = true) {
  std::vector<std::int64_t> shape = window;
  shape.push_back(in);
  shape.push_back(out);
  const Array kernel = call.scope.trainable(name, {.shape = Shape(shape),
                                                   .dtype = call.x.dtype(),
                                                   .initializer = call.options.kernel_initializer,
                                                   .aggregation = call.options.aggregation});
  return last && call.options.kernel_function ? call.options.kernel_function(call.scope, kernel) : kernel;
}

Array with_bias(const Call& call, const Array& y, const Shape& shape) {
  if (!call.options.use_bias) return y;
  return y + call.scope.trainable("bias", {.shape = shape,
                                           .dtype = call.x.dtype(),
                                           .initializer = call.options.bias_initializer,
                                           .aggregation = call.options.aggregation});
}

Array with_bias(const Call& call, const Array& y) { return with_bias(call, y, Shape{y.dim(-1)}); }

Array convolved_by_channel(const Call& call, const Windows& windows, const Array& kernel) {
  std::vector<std::int64_t> shape = windows.kernel;
  shape.push_back(1);
  shape.push_back(call.x.dim(-1) * call.options.multiplier);
  return depthwise_conv(
      call.x, reshape(kernel, shape),
      {.strides = windows.strides,
       .padding = nn::padding_of(call.options.padding, call.x, windows.kernel, windows.strides, windows.dilation),
       .rhs_dilation = windows.dilation});
}

}  // namespace

Array conv(const Scope& scope, const ArrayOperand& given, const ConvLayerOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  const Call call{"conv", scope, x, options};
  check_unread(call, {.groups = true});
  const Windows windows = windows_of(call);
  check_counts(call, options.filters, options.groups);
  const Array kernel = convolution_kernel(call, "kernel", windows.kernel, x.dim(-1) / options.groups, options.filters);
  const ConvOptions how{
      .strides = windows.strides,
      .padding = nn::padding_of(options.padding, x, windows.kernel, windows.strides, windows.dilation),
      .dilation = windows.dilation,
      .groups = options.groups};
  return with_bias(call, conv(x, kernel, how));
}

Array conv_transpose(const Scope& scope, const ArrayOperand& given, const ConvLayerOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  const Call call{"conv_transpose", scope, x, options};
  check_unread(call, {.groups = true, .output_padding = true});
  const Windows windows = windows_of(call);
  check_counts(call, options.filters, options.groups);
  if (options.padding == Padding::causal) {
    throw ValueError(
        fmt::format("[{}] the padding is causal; expected same, valid or half: the gradient of a causal convolution "
                    "would look ahead",
                    call.name()));
  }
  const Array kernel = convolution_kernel(call, "kernel", windows.kernel, options.filters / options.groups, x.dim(-1));
  ConvTransposeOptions how{.strides = windows.strides,
                           .padding = std::string(options.padding == Padding::same ? "SAME" : "VALID"),
                           .rhs_dilation = windows.dilation,
                           .transpose_kernel = true,
                           .groups = options.groups};
  if (!options.output_padding.empty()) {
    const auto dimensions = windows.strides.size();
    const Axes& given = options.output_padding;
    how.output_padding = given.size() == 1 ? Axes(dimensions, given[0]) : given;
  }
  if (options.padding == Padding::half) {
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t d = 0; d < windows.kernel.size(); ++d) {
      const std::int64_t reach = (windows.kernel[d] - 1) * windows.dilation[d];
      pairs.emplace_back(reach - (reach + 1) / 2, reach - (reach + 1) / 2);
    }
    how.padding = pairs;
  }
  return with_bias(call, conv_transpose(x, kernel, how));
}

Array depthwise_conv(const Scope& scope, const ArrayOperand& given, const ConvLayerOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  const Call call{"depthwise_conv", scope, x, options};
  check_unread(call, {.multiplier = true});
  const Windows windows = windows_of(call);
  check_counts(call, 1, 1);
  const Array kernel = convolution_kernel(call, "kernel", windows.kernel, x.dim(-1), options.multiplier);
  return with_bias(call, convolved_by_channel(call, windows, kernel));
}

Array separable_conv(const Scope& scope, const ArrayOperand& given, const ConvLayerOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  const Call call{"separable_conv", scope, x, options};
  check_unread(call, {.multiplier = true});
  const Windows windows = windows_of(call);
  check_counts(call, options.filters, 1);
  const Array kernel =
      convolution_kernel(call, "depthwise_kernel", windows.kernel, x.dim(-1), options.multiplier, false);
  const Array y = convolved_by_channel(call, windows, kernel);
  const Array pointwise = convolution_kernel(call, "pointwise_kernel", {}, y.dim(-1), options.filters);
  return with_bias(call, dot_general(y, pointwise, {{y.ndim() - 1}, {0}}));
}

Array conv_local(const Scope& scope, const ArrayOperand& given, const ConvLayerOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  const Call call{"conv_local", scope, x, options};
  check_unread(call, {});
  const Windows windows = windows_of(call);
  check_counts(call, options.filters, 1);
  const Array patches = conv_general_dilated_patches(
      x, windows.kernel,
      {.strides = windows.strides,
       .padding = nn::padding_of(options.padding, x, windows.kernel, windows.strides, windows.dilation),
       .rhs_dilation = windows.dilation});
  std::vector<std::int64_t> places, shape = {x.dim(0)};
  for (int d = 1; d + 1 < patches.ndim(); ++d) places.push_back(patches.dim(d));
  const Array kernel = convolution_kernel(call, "kernel", places, patches.dim(-1), options.filters);
  const Array y = einsum("npk,pkf->npf", {reshape(patches, {x.dim(0), -1, patches.dim(-1)}),
                                          reshape(kernel, {-1, patches.dim(-1), options.filters})});
  shape.insert(shape.end(), places.begin(), places.end());
  shape.push_back(options.filters);
  places.push_back(options.filters);
  return with_bias(call, reshape(y, shape), Shape(places));
}

}  // namespace lockstep
