#include <limits>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/convolution.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/random.h>
#include <lockstep/vision/image_filters.h>

#include "engine/api/numpy/operands.h"

namespace lockstep::image {

namespace {

void check_three(std::string_view op, const Array& x) {
  if (x.ndim() == 0 || x.dim(-1) != 3) {
    throw ShapeError(
        fmt::format("{}: x is {}; expected three channels in the last dimension", op, to_string(x.type())));
  }
  if (!is_float(x.dtype())) {
    throw DtypeError(
        fmt::format("{}: x is {}; expected floats of 0 to 1, so divide by 255 first", op, to_string(x.type())));
  }
}

/// [..., H, W, C] as [N, H, W, C], floats.
Array as_batch(std::string_view op, const Array& x) {
  if (x.ndim() < 3) {
    throw ShapeError(fmt::format("{}: x is {}; expected [..., H, W, C]", op, to_string(x.type())));
  }
  const Array floats = convert(x, api::inexact(x.dtype()));
  std::int64_t rows = 1;
  for (int d = 0; d < x.ndim() - 3; ++d) rows *= x.dim(d);
  return reshape(floats, {rows, x.dim(-3), x.dim(-2), x.dim(-1)});
}

/// The same kernel [height, width] for each channel.
Array by_channel(const Array& x, const Array& kernel, const ConvPadding& padding) {
  const std::int64_t channels = x.dim(-1);
  const Array one = expand_dims(kernel, Axes{2, 3});
  const Array all = broadcast_to(one, {kernel.dim(0), kernel.dim(1), 1, channels});
  return depthwise_conv(x, all, {.padding = padding});
}

void check_odd(std::string_view op, std::int64_t window) {
  if (window > 0 && window % 2 == 1) return;
  throw ValueError(fmt::format("{}: the window has the extent {}; expected an odd number", op, window));
}

Array gaussian_window(std::int64_t size, const Array& deviation) {
  const Array x = arange(size, deviation.dtype()) - static_cast<double>(size - 1) / 2;
  const Array kernel = exp(-0.5 * square(x / deviation));
  return kernel / sum(kernel);
}

/// A kernel down the image, and one across.
Array separably(const Array& x, const Array& vertical, const Array& horizontal, const ConvPadding& padding) {
  return by_channel(by_channel(x, expand_dims(vertical, 1), padding), expand_dims(horizontal, 0), padding);
}

void check_alike(std::string_view op, const Array& a, const Array& b) {
  if (a.shape() == b.shape()) return;
  throw ShapeError(
      fmt::format("{}: a is {}, b is {}; expected one shape", op, to_string(a.type()), to_string(b.type())));
}

}  // namespace

Array rgb_to_grayscale(const ArrayOperand& x) {
  if (x.ndim() > 0 && x.dim(-1) == 1) return x;
  if (x.ndim() == 0 || x.dim(-1) != 3) {
    throw ShapeError(fmt::format(
        "image.rgb_to_grayscale: x is {}; expected three channels or one in the last dimension", to_string(x.type())));
  }
  const Arrays rgb = split(convert(x, api::inexact(x.dtype())), 3, -1);
  return convert(0.2989 * rgb[0] + 0.5870 * rgb[1] + 0.1140 * rgb[2], x.dtype());
}

Array rgb_to_hsv(const ArrayOperand& x) {
  check_three("image.rgb_to_hsv", x);
  const double least = x.dtype() == float64   ? std::numeric_limits<double>::epsilon()
                       : x.dtype() == float32 ? std::numeric_limits<float>::epsilon()
                       : x.dtype() == float16 ? 0x1p-10
                                              : 0x1p-7;
  const Arrays rgb = unstack(where(abs(x) < least, 0, x), -1);
  const Array &r = rgb[0], &g = rgb[1], &b = rgb[2];
  const Array value = maximum(maximum(r, g), b);
  const Array range = value - minimum(minimum(r, g), b);
  const Array saturation = where(value > 0, range / where(value > 0, value, 1), 0);
  const Array norm = 1 / (6 * where(range > 0, range, 1));
  const Array of_others = where(value == g, norm * (b - r) + 2.0 / 6.0, norm * (r - g) + 4.0 / 6.0);
  const Array signed_hue = where(value == r, norm * (g - b), of_others);
  const Array hue = where(range > 0, signed_hue, 0) + convert(signed_hue < 0, x.dtype());
  return stack({hue, saturation, value}, -1);
}

Array hsv_to_rgb(const ArrayOperand& x) {
  check_three("image.hsv_to_rgb", x);
  const Arrays hsv = unstack(x, -1);
  const Array six = remainder(hsv[0], 1.0) * 6;
  const Array red = clip(abs(six - 3) - 1, 0, 1), green = clip(2 - abs(six - 2), 0, 1);
  const Array blue = clip(2 - abs(six - 4), 0, 1);
  const auto mixed = [&](const Array& full) { return hsv[2] * (1 - hsv[1] + hsv[1] * full); };
  return stack({mixed(red), mixed(green), mixed(blue)}, -1);
}

Array gaussian_blur(const ArrayOperand& x, std::pair<std::int64_t, std::int64_t> window, const Operand& vertical,
                    const Operand& horizontal) {
  const std::string_view op = "image.gaussian_blur";
  check_odd(op, window.first);
  check_odd(op, window.second);
  const Array images = as_batch(op, x);
  const auto kernel = [&](std::int64_t size, const Operand& deviation) {
    return gaussian_window(size, convert(full({}, 1.0, images.dtype()) * deviation, images.dtype()));
  };
  const Array blurred = separably(images, kernel(window.first, vertical), kernel(window.second, horizontal), "SAME");
  return reshape(blurred, x.shape().to_vector());
}

Array sobel_edges(const ArrayOperand& x) {
  const Array images = as_batch("image.sobel_edges", x);
  const Array smooth = convert(array({1.0, 2.0, 1.0}), images.dtype());
  const Array slope = convert(array({-1.0, 0.0, 1.0}), images.dtype());
  const Array down = separably(images, slope, smooth, "SAME"), across = separably(images, smooth, slope, "SAME");
  return reshape(stack({down, across}, -1), x.shape().insert(x.ndim(), 2).to_vector());
}

Array ssim(const ArrayOperand& a, const ArrayOperand& b, const SsimOptions& options) {
  const std::string_view op = "image.ssim";
  check_alike(op, a, b);
  check_odd(op, options.window);
  if (!(options.deviation > 0)) {
    throw ValueError(fmt::format("{}: deviation is {}; expected a number above 0", op, options.deviation));
  }
  const DType dtype = api::inexact(promote(a.dtype(), b.dtype()));
  // Variances are differences of averages, of which float32 leaves nothing where the mean is 1000 deviations.
  const Array x = as_batch(op, convert(a, float64)), y = as_batch(op, convert(b, float64));
  if (x.dim(1) < options.window || x.dim(2) < options.window) {
    throw ShapeError(fmt::format("{}: images are {}, the window {} x {}; expected images that it fits in", op,
                                 to_string(a.type()), options.window, options.window));
  }
  const Array kernel = gaussian_window(options.window, full({}, options.deviation, float64));
  const auto mean_of = [&](const Array& values) { return separably(values, kernel, kernel, "VALID"); };
  const Array of_x = mean_of(x), of_y = mean_of(y);
  const Array variance_x = mean_of(square(x)) - square(of_x), variance_y = mean_of(square(y)) - square(of_y);
  const Array covariance = mean_of(x * y) - of_x * of_y;
  const double c1 = options.k1 * options.max_value * options.k1 * options.max_value;
  const double c2 = options.k2 * options.max_value * options.k2 * options.max_value;
  const Array alike = (2 * of_x * of_y + c1) * (2 * covariance + c2) /
                      ((square(of_x) + square(of_y) + c1) * (variance_x + variance_y + c2));
  std::vector<std::int64_t> rows = a.shape().to_vector();
  rows.resize(rows.size() - 3);
  return reshape(convert(mean(alike, Axes{1, 2, 3}), dtype), rows);
}

Array psnr(const ArrayOperand& a, const ArrayOperand& b, const Operand& max_value) {
  check_alike("image.psnr", a, b);
  const DType dtype = api::inexact(promote(a.dtype(), b.dtype()));
  const Array error = mean(square(convert(a, dtype) - convert(b, dtype)));
  return 20 * log10(convert(full({}, 1.0, dtype) * max_value, dtype)) - 10 * log10(error);
}

namespace {

void check_examples(std::string_view op, const Array& images, const Array& labels, double alpha) {
  if (images.ndim() < 1 || labels.ndim() != 2 || labels.dim(0) != images.dim(0) || images.dim(0) == 0) {
    throw ShapeError(fmt::format("{}: images are {}, labels {}; expected [N, ...] and [N, classes], N at least 1", op,
                                 to_string(images.type()), to_string(labels.type())));
  }
  if (!is_float(labels.dtype())) {
    throw DtypeError(
        fmt::format("{}: labels are {}; expected floats, such as one_hot gives", op, to_string(labels.type())));
  }
  if (alpha > 0) return;
  throw ValueError(fmt::format("{}: alpha is {}; expected a number above 0", op, alpha));
}

Array mixture(const Array& weight, const Array& own, const Array& other) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(own.ndim()), 1);
  shape[0] = own.dim(0);
  const Array w = reshape(convert(weight, own.dtype()), shape);
  return w * own + (1 - w) * other;
}

/// Where a rectangle begins and ends along `extent` pixels, as a mask [N, extent].
Array stretch(const Array& key, const Array& ratio, std::int64_t extent) {
  const Array length = ratio * static_cast<double>(extent);
  const Array start = random::uniform(key, ratio.shape()) * (static_cast<double>(extent) - length);
  const Array place = arange(extent, float32);
  return logical_and(place >= expand_dims(start, 1), place < expand_dims(start + length, 1));
}

}  // namespace

std::pair<Array, Array> mix_up(const ArrayOperand& key, const ArrayOperand& images, const ArrayOperand& labels,
                               double alpha) {
  check_examples("image.mix_up", images, labels, alpha);
  const std::int64_t count = images.dim(0);
  const Array keys = random::split(key), floats = convert(images, api::inexact(images.dtype()));
  const Array order = random::permutation(keys[0], count);
  const Array weight = random::beta(keys[1], alpha, alpha, {count});
  return {mixture(weight, floats, take_rows(floats, order)), mixture(weight, labels, take_rows(labels, order))};
}

std::pair<Array, Array> cut_mix(const ArrayOperand& key, const ArrayOperand& images, const ArrayOperand& labels,
                                double alpha) {
  check_examples("image.cut_mix", images, labels, alpha);
  if (images.ndim() != 4) {
    throw ShapeError(fmt::format("image.cut_mix: images are {}; expected [N, H, W, C]", to_string(images.type())));
  }
  const std::int64_t count = images.dim(0);
  const Array keys = random::split(key, 4);
  const Array order = random::permutation(keys[0], count);
  const Array ratio = sqrt(1 - random::beta(keys[1], alpha, alpha, {count}));
  const Array rows = stretch(keys[2], ratio, images.dim(1)), columns = stretch(keys[3], ratio, images.dim(2));
  const Array taken = logical_and(expand_dims(rows, 2), expand_dims(columns, 1));
  const Array weight = 1 - mean(convert(taken, float32), Axes{1, 2});
  return {where(expand_dims(taken, 3), take_rows(images, order), images),
          mixture(weight, labels, take_rows(labels, order))};
}

}  // namespace lockstep::image
