#include <algorithm>

#include <lockstep/error.h>
#include <lockstep/layers.h>

namespace lockstep {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

void check_image(std::string_view layer, const Array& x) {
  if (x.ndim() == 4 && is_float(x.dtype())) return;
  throw ShapeError("[" + std::string(layer) + "] the input is " + to_string(x.type()) +
                   "; give float images [N, H, W, C] (channels last)");
}

/// What Keras and TensorFlow call "same": ceil(size / stride) results, the smaller half of the padding in front.
Pair same_padding(std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t dilation) {
  const std::int64_t reach = (window - 1) * dilation + 1;
  const std::int64_t results = (size + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>((results - 1) * stride + reach - size, 0);
  return {total / 2, total - total / 2};
}

std::vector<Pair> padding_of(Padding padding, const Array& x, Pair window, Pair strides, Pair dilation) {
  if (padding == Padding::valid) return {{0, 0}, {0, 0}};
  if (padding == Padding::half) {
    const std::int64_t rows = (window.first - 1) * dilation.first / 2;
    const std::int64_t columns = (window.second - 1) * dilation.second / 2;
    return {{rows, rows}, {columns, columns}};
  }
  return {same_padding(x.dim(1), window.first, strides.first, dilation.first),
          same_padding(x.dim(2), window.second, strides.second, dilation.second)};
}

WindowOptions window_options(std::string_view layer, const Array& x, const Pool2dOptions& options) {
  check_image(layer, x);
  const Pair strides = {options.strides.first == 0 ? options.window.first : options.strides.first,
                        options.strides.second == 0 ? options.window.second : options.strides.second};
  return {.window = {options.window.first, options.window.second},
          .strides = {strides.first, strides.second},
          .padding = padding_of(options.padding, x, options.window, strides, {1, 1})};
}

}  // namespace

Array conv2d(const Scope& scope, const ArrayOperand& x, const Conv2dOptions& options) {
  const NamedScope named = scope.named();
  check_image("conv2d '" + scope.path() + "'", x);
  const std::int64_t channels = x.dim(-1);
  if (options.filters <= 0 || options.groups <= 0 || channels % options.groups != 0 ||
      options.filters % options.groups != 0) {
    throw ValueError("[conv2d '" + scope.path() + "'] " + std::to_string(channels) + " channels, " +
                     std::to_string(options.filters) + " filters, " + std::to_string(options.groups) +
                     " groups; filters and groups are at least 1, and groups divides channels and filters");
  }
  const Array kernel = scope.trainable(
      "kernel", {.shape = {options.kernel.first, options.kernel.second, channels / options.groups, options.filters},
                 .dtype = x.dtype(),
                 .initializer = options.kernel_initializer,
                 .aggregation = options.aggregation});
  const Array y = conv(x, kernel,
                       {.strides = {options.strides.first, options.strides.second},
                        .padding = padding_of(options.padding, x, options.kernel, options.strides, options.dilation),
                        .dilation = {options.dilation.first, options.dilation.second},
                        .groups = options.groups});
  if (!options.use_bias) return y;
  return y + scope.trainable("bias", {.shape = {options.filters},
                                      .dtype = x.dtype(),
                                      .initializer = options.bias_initializer,
                                      .aggregation = options.aggregation});
}

Array max_pool2d(const ArrayOperand& x, const Pool2dOptions& options) {
  return window_max(x, window_options("max_pool2d", x, options));
}

Array max_pool2d(const ArrayOperand& x, Pair window) { return max_pool2d(x, Pool2dOptions{.window = window}); }

Array avg_pool2d(const ArrayOperand& x, const Pool2dOptions& options) {
  return window_mean(x, window_options("avg_pool2d", x, options));
}

Array avg_pool2d(const ArrayOperand& x, Pair window) { return avg_pool2d(x, Pool2dOptions{.window = window}); }

Array global_avg_pool2d(const ArrayOperand& x) {
  check_image("global_avg_pool2d", x);
  return mean(x, Axes{1, 2});
}

}  // namespace lockstep
