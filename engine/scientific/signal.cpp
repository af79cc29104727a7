#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/convolution.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/fft.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>
#include <lockstep/scientific/signal.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/core/lists.h"

namespace lockstep::signal {

namespace {

DType real_dtype_of(DType dtype) { return dtype == float64 || dtype == complex128 ? float64 : float32; }

/// How segments lie in a signal.
struct Segments {
  std::int64_t size, step, length;
  Array window;

  /// `size` and `length` as chosen; the rest from the options.
  Segments(std::string_view op, const StftOptions& options, std::int64_t samples, std::int64_t transform, DType dtype)
      : size(samples), step(samples - options.overlap.value_or(samples / 2)), length(transform) {
    if (size < 1 || step < 1 || step > size || length < size || !(options.fs > 0)) {
      throw ValueError(
          fmt::format("{}: segments of {} samples that share {}, transforms of {}, fs {}; expected 1 or "
                      "more, fewer shared, transforms as long or longer, fs above 0",
                      op, size, size - step, length, options.fs));
    }
    if (options.window) {
      if (options.window->shape() != Shape{size}) {
        throw ShapeError(fmt::format("{}: the window is {}; expected a weight for each of the {} samples of a segment",
                                     op, to_string(options.window->shape()), size));
      }
      window = convert(*options.window, dtype);
    } else {
      const double angle = std::numbers::pi / static_cast<double>(size);
      window = size == 1 ? ones({1}, dtype) : convert(square(sin(arange(size, float64) * angle)), dtype);
    }
  }

  /// The places of `count` segments, [count, size].
  Array places(std::int64_t count) const { return expand_dims(arange(count) * step, 1) + expand_dims(arange(size), 0); }
};

/// Zeros at the ends of the last axis.
Array extended(const Array& x, std::int64_t low, std::int64_t high) {
  Axes before = repeated(x.ndim()), behind = repeated(x.ndim());
  before.back() = low;
  behind.back() = high;
  return pad(x, 0, before, behind);
}

}  // namespace

Stft stft(const ArrayOperand& x, const StftOptions& options) {
  if (x.ndim() == 0) throw ShapeError("signal.stft: a scalar given; expected a signal along the last axis");
  const Array signal = api::as_widened(x);
  const DType real_dtype = real_dtype_of(signal.dtype());
  const std::int64_t samples = std::min(options.segment, std::max<std::int64_t>(x.dim(-1), 1));
  const Segments segments("signal.stft", options, samples, options.length.value_or(samples), real_dtype);
  const std::int64_t half = options.boundary ? samples / 2 : 0;
  std::int64_t count = signal.dim(-1) + 2 * half;
  const std::int64_t room = std::max<std::int64_t>(count - samples, 0);
  const std::int64_t missing = options.padded ? (segments.step - room % segments.step) % segments.step : 0;
  const Array whole = extended(signal, half, half + missing);
  count = whole.dim(-1) < samples ? 0 : (whole.dim(-1) - samples) / segments.step + 1;
  const Array frames = take(whole, segments.places(count), -1, IndexMode::promise_in_bounds) * segments.window;
  const bool is_real = !is_complex(signal.dtype());
  const Array values = is_real ? fft::rfft(frames, segments.length) : fft::fft(frames, segments.length);
  const double spacing = 1 / options.fs;
  const double first = options.boundary ? 0 : static_cast<double>(samples) / 2;
  return {is_real ? fft::rfftfreq(segments.length, spacing, real_dtype)
                  : fft::fftfreq(segments.length, spacing, real_dtype),
          convert((arange(count, float64) * static_cast<double>(segments.step) + first) / options.fs, real_dtype),
          swapaxes(values / sum(segments.window), -1, -2)};
}

Array istft(const ArrayOperand& values, const StftOptions& options, bool onesided) {
  if (values.ndim() < 2) {
    throw ShapeError(
        fmt::format("signal.istft: {} given; expected [..., frequencies, times]", to_string(values.shape())));
  }
  const std::int64_t full = onesided ? 2 * (values.dim(-2) - 1) : values.dim(-2);
  const bool odd = onesided && options.segment == full + 1;
  const std::int64_t length = options.length.value_or(odd ? full + 1 : full);
  const Array spectra = swapaxes(values, -1, -2);
  const Segments segments("signal.istft", options, std::min(options.segment, length), length,
                          real_dtype_of(api::as_widened(values).dtype()));
  const Array all = onesided ? fft::irfft(spectra, length) : fft::ifft(spectra, length);
  const Array frames = slice_in_dim(all, 0, segments.size, -1) * (segments.window * sum(segments.window));
  const std::int64_t count = values.dim(-1);
  const std::int64_t samples = count == 0 ? 0 : segments.size + (count - 1) * segments.step;
  Shape shape = frames.shape().erase(frames.ndim() - 1);
  shape = shape.with(shape.rank() - 1, samples);
  const Array places = segments.places(count);
  const Array added = at(zeros(shape, frames.dtype()), ellipsis, places).add(frames);
  const Array norm = at(zeros({samples}, segments.window.dtype()), places)
                         .add(broadcast_to(square(segments.window), {count, segments.size}));
  const Array signal = added / convert(where(norm > 1e-10, norm, 1), added.dtype());
  const std::int64_t half = options.boundary ? segments.size / 2 : 0;
  return slice_in_dim(signal, std::min(half, samples), std::max(samples - half, std::min(half, samples)), -1);
}

namespace {

/// The least number of at least n whose prime factors are 2, 3 and 5.
std::int64_t fast_length(std::int64_t n) {
  for (;; ++n) {
    std::int64_t rest = n;
    for (const std::int64_t p : {2, 3, 5}) {
      while (rest % p == 0 && rest > 1) rest /= p;
    }
    if (rest <= 1) return std::max<std::int64_t>(n, 1);
  }
}

/// What of a full convolution is asked for: [start, start + extents).
struct Part {
  Axes start, extents;
  bool swapped = false;  ///< b holds a.

  /// `upper`: of two middles, which an even extent of b has, "same" takes the upper one.
  Part(std::string_view op, const Shape& a, const Shape& b, std::string_view mode, bool upper = false) {
    if (a.rank() != b.rank()) {
      throw ShapeError(fmt::format("{}: {} and {} given; expected one rank", op, to_string(a), to_string(b)));
    }
    if (mode != "full" && mode != "same" && mode != "valid") {
      throw ValueError(fmt::format("{}: mode must be \"full\", \"same\" or \"valid\", got \"{}\"", op, mode));
    }
    bool a_holds = true, b_holds = true;
    for (int d = 0; d < a.rank(); ++d) {
      a_holds = a_holds && a[d] >= b[d];
      b_holds = b_holds && b[d] >= a[d];
      if (a[d] > 0 && b[d] > 0) continue;
      throw ShapeError(
          fmt::format("{}: {} and {} given; expected at least one element", op, to_string(a), to_string(b)));
    }
    if (mode == "valid" && !a_holds && !b_holds) {
      throw ShapeError(fmt::format("{}: neither of {} and {} holds the other; expected it for mode \"valid\"", op,
                                   to_string(a), to_string(b)));
    }
    swapped = !a_holds;
    for (int d = 0; d < a.rank(); ++d) {
      const std::int64_t full = a[d] + b[d] - 1;
      extents.push_back(mode == "full" ? full : mode == "same" ? a[d] : std::abs(a[d] - b[d]) + 1);
      start.push_back((full - extents.back() + (upper && mode == "same" ? 1 : 0)) / 2);
    }
  }
};

}  // namespace

Array fftconvolve(const ArrayOperand& a, const ArrayOperand& b, std::string_view mode) {
  const Part part("signal.fftconvolve", a.shape(), b.shape(), mode);
  const DType dtype = api::widened(api::common_dtype({a, b}));
  const Array left = convert(a, dtype), right = convert(b, dtype);
  if (a.ndim() == 0) return left * right;
  Axes lengths, limit;
  for (int d = 0; d < a.ndim(); ++d) {
    lengths.push_back(fast_length(a.dim(d) + b.dim(d) - 1));
    limit.push_back(nth(part.start, d) + nth(part.extents, d));
  }
  const Array full = is_complex(dtype) ? fft::ifftn(fft::fftn(left, lengths) * fft::fftn(right, lengths), lengths)
                                       : fft::irfftn(fft::rfftn(left, lengths) * fft::rfftn(right, lengths), lengths);
  return slice(full, part.start, limit);
}

namespace {

Array convolved(std::string_view op, const Array& a, const Array& b, std::string_view mode, const Part& part) {
  if (a.ndim() != 2) {
    throw ShapeError(fmt::format("{}: {} given; expected matrices", op, to_string(a.shape())));
  }
  const bool swapped = mode == "valid" && part.swapped;
  const Array large = swapped ? b : a, small = flip(swapped ? a : b);
  std::vector<std::pair<std::int64_t, std::int64_t>> padding;
  for (int d = 0; d < 2; ++d) {
    const std::int64_t taps = small.dim(d), low = taps - 1 - nth(part.start, d);
    padding.emplace_back(low, nth(part.extents, d) + taps - 1 - low - large.dim(d));
  }
  const Array result = conv_general_dilated(reshape(large, {1, large.dim(0), large.dim(1), 1}),
                                            reshape(small, {small.dim(0), small.dim(1), 1, 1}), {.padding = padding});
  return reshape(result, part.extents);
}

}  // namespace

Array convolve2d(const ArrayOperand& a, const ArrayOperand& b, std::string_view mode) {
  constexpr std::string_view op = "signal.convolve2d";
  return convolved(op, a, b, mode, Part(op, a.shape(), b.shape(), mode));
}

Array correlate2d(const ArrayOperand& a, const ArrayOperand& b, std::string_view mode) {
  constexpr std::string_view op = "signal.correlate2d";
  return convolved(op, a, flip(conj(b)), mode, Part(op, a.shape(), b.shape(), mode, true));
}

Array detrend(const ArrayOperand& x, bool linear, std::int64_t axis) {
  const int dim = normalize_axis(axis, x.ndim(), "signal.detrend");
  const Array signal = api::as_widened(x);
  const DType dtype = api::inexact(x.dtype());
  const Array centered = api::centered(signal, {dim});
  if (!linear || x.dim(dim) < 2) return convert(centered, dtype);
  const auto n = static_cast<double>(x.dim(dim));
  Axes column = repeated(x.ndim(), 1);
  nth(column, dim) = x.dim(dim);
  const Array time = reshape(arange(x.dim(dim), real_dtype_of(signal.dtype())) - (n - 1) / 2, column);
  const Array slope = sum(centered * time, dim, true) / (n * (n * n - 1) / 12);
  return convert(centered - slope * time, dtype);
}

namespace {

/// 0, 2, 4, ..., 5, 3, 1.
std::vector<std::int32_t> evens_then_odds(std::int64_t n) {
  std::vector<std::int32_t> order;
  for (std::int64_t i = 0; i < n; i += 2) order.push_back(static_cast<std::int32_t>(i));
  for (std::int64_t i = n - 1 - n % 2; i >= 1; i -= 2) order.push_back(static_cast<std::int32_t>(i));
  return order;
}

/// exp(sign i pi k / (2 n)).
Array quarter_wave(std::int64_t n, double sign, DType dtype) {
  const Array angle = arange(n, float64) * (sign * std::numbers::pi / (2 * static_cast<double>(n)));
  return convert(complex(cos(angle), sin(angle)), dtype == float64 ? complex128 : complex64);
}

/// What makes the transform of type 2 orthogonal.
Array orthogonal_scale(std::int64_t n, DType dtype) {
  const auto count = static_cast<double>(n);
  return convert(sqrt(where(arange(n) == 0, full({}, 0.25 / count, float64), 0.5 / count)), dtype);
}

/// The function of real signals along the last axis, on either part of a complex one along any.
template <class F>
Array on_parts_along(std::string_view op, const Array& x, std::int64_t axis, const F& f) {
  const int dim = normalize_axis(axis, x.ndim(), op);
  if (x.dim(dim) == 0) {
    throw ShapeError(
        fmt::format("{}: {} has no elements along axis {}; expected at least one", op, to_string(x.shape()), dim));
  }
  const Array signal = moveaxis(api::as_widened(x), dim, -1);
  const Array result = is_complex(signal.dtype()) ? complex(f(real(signal)), f(imag(signal))) : f(signal);
  return moveaxis(result, -1, dim);
}

}  // namespace

Array dct(const ArrayOperand& x, std::int64_t axis, bool ortho) {
  return on_parts_along("signal.dct", x, axis, [&](const Array& signal) {
    const std::int64_t n = signal.dim(-1);
    const Array ordered = take(signal, array(evens_then_odds(n)), -1, IndexMode::promise_in_bounds);
    const Array wave = fft::fft(ordered) * quarter_wave(n, -1, signal.dtype());
    const Array values = 2 * real(wave);
    return ortho ? values * orthogonal_scale(n, signal.dtype()) : values;
  });
}

Array idct(const ArrayOperand& x, std::int64_t axis, bool ortho) {
  return on_parts_along("signal.idct", x, axis, [&](const Array& given) {
    const std::int64_t n = given.dim(-1);
    const Array values = ortho ? given / orthogonal_scale(n, given.dtype()) : given;
    const Array mirrored = extended(flip(slice_in_dim(values, 1, n, -1), -1), 1, 0);
    const Array wave = complex(values, -mirrored) * quarter_wave(n, 1, given.dtype()) * 0.5;
    const std::vector<std::int32_t> order = evens_then_odds(n);
    std::vector<std::int32_t> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) nth(place, order[i]) = static_cast<std::int32_t>(i);
    return take(real(fft::ifft(wave)), array(place), -1, IndexMode::promise_in_bounds);
  });
}

Array dctn(const ArrayOperand& x, const OptionalAxes& axes, bool ortho) {
  Array result = x;
  for (const std::int64_t axis : api::resolve_axes(axes, x.ndim(), "signal.dctn")) result = dct(result, axis, ortho);
  return result;
}

Array idctn(const ArrayOperand& x, const OptionalAxes& axes, bool ortho) {
  Array result = x;
  for (const std::int64_t axis : api::resolve_axes(axes, x.ndim(), "signal.idctn")) result = idct(result, axis, ortho);
  return result;
}

}  // namespace lockstep::signal
