#include <algorithm>

#include <lockstep/error.h>
#include <lockstep/layers_convolution.h>

#include "engine/nn/layers/windows.h"

namespace lockstep {

Array conv2d(const Scope& scope, const ArrayOperand& given, const Conv2dOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  const std::string layer = "conv2d '" + scope.path() + "'";
  nn::check_image(layer, x);
  const Axes window = {options.kernel.first, options.kernel.second};
  const Axes strides = {options.strides.first, options.strides.second};
  const Axes dilation = {options.dilation.first, options.dilation.second};
  nn::check_counts(layer, "extents of the kernel", window);
  nn::check_counts(layer, "strides", strides);
  nn::check_counts(layer, "dilations", dilation);
  const std::int64_t channels = x.dim(-1);
  if (options.filters <= 0 || options.groups <= 0 || channels % options.groups != 0 ||
      options.filters % options.groups != 0) {
    throw ValueError("[" + layer + "] " + std::to_string(channels) + " channels, " + std::to_string(options.filters) +
                     " filters, " + std::to_string(options.groups) +
                     " groups; filters and groups are at least 1, and groups divides channels and filters");
  }
  Array kernel = scope.trainable(
      "kernel", {.shape = {options.kernel.first, options.kernel.second, channels / options.groups, options.filters},
                 .dtype = x.dtype(),
                 .initializer = options.kernel_initializer,
                 .aggregation = options.aggregation});
  if (options.kernel_function) kernel = options.kernel_function(scope, kernel);
  const Array y = conv(x, kernel,
                       {.strides = strides,
                        .padding = nn::padding_of(options.padding, x, window, strides, dilation),
                        .dilation = dilation,
                        .groups = options.groups});
  if (!options.use_bias) return y;
  return y + scope.trainable("bias", {.shape = {options.filters},
                                      .dtype = x.dtype(),
                                      .initializer = options.bias_initializer,
                                      .aggregation = options.aggregation});
}

}  // namespace lockstep
