#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/fft.h>
#include <lockstep/indexing.h>
#include <lockstep/layers_preprocessing.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

namespace lockstep {
namespace {

void check_options(const MelSpectrogramOptions& o) {
  const bool fits = o.fft_length >= 1 && o.step >= 1 && o.window >= 0 && o.window <= o.fft_length &&
                    o.sampling_rate >= 1 && o.least_power > 0 && o.reference_power != 0 && o.range >= 0;
  if (fits) return;
  throw ValueError(fmt::format(
      "[mel_spectrogram] fft_length {}, step {}, window {}, sampling_rate {}, least_power {}, reference_power {}, "
      "range "
      "{}; lengths and rate are at least 1, the window is no longer than fft_length, least_power is above 0, "
      "reference_power not 0 and range not below 0",
      o.fft_length, o.step, o.window, o.sampling_rate, o.least_power, o.reference_power, o.range));
}

/// The periodic Hann window in the middle of `length` samples.
Array hann_window(std::int64_t samples, std::int64_t length, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(length));
  const std::int64_t first = (length - samples) / 2;
  for (std::int64_t i = 0; i < samples; ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(samples);
    values[static_cast<std::size_t>(first + i)] = 0.5 - 0.5 * std::cos(turn);
  }
  return convert(array(values), dtype);
}

/// Windows around every `step`th sample, [..., times, length]: x reflected at its ends.
Array frames_of(const Array& x, const MelSpectrogramOptions& o) {
  const std::int64_t samples = x.dim(-1), half = o.fft_length / 2;
  if (samples <= half) {
    throw ShapeError(fmt::format("[mel_spectrogram] the input is {}; give signals of more than {} samples",
                                 to_string(x.type()), half));
  }
  const std::int64_t times = (samples + 2 * half - o.fft_length) / o.step + 1;
  const Array place = abs(expand_dims(arange(times) * o.step, 1) + arange(o.fft_length) - half);
  return take(x, where(place < samples, place, 2 * (samples - 1) - place), -1, IndexMode::promise_in_bounds);
}

double mel(double hertz) { return 1127 * std::log1p(hertz / 700); }

}  // namespace

Array mel_filters(std::int64_t bins, std::int64_t frequencies, double sampling_rate, double lowest, double highest,
                  DType dtype) {
  if (bins < 1 || frequencies < 1 || !(sampling_rate > 0) || !(lowest >= 0) || !(highest > lowest)) {
    throw ValueError(
        fmt::format("[mel_filters] {} bins, {} frequencies, rate {}, from {} to {} hertz; give at least 1 of "
                    "each, a rate above 0 and frequencies that rise from 0 or above",
                    bins, frequencies, sampling_rate, lowest, highest));
  }
  std::vector<double> values(static_cast<std::size_t>(bins * frequencies));
  const double low = mel(lowest), apart = (mel(highest) - low) / static_cast<double>(bins + 1);
  for (std::int64_t f = 1; f < frequencies; ++f) {
    const double at = mel(sampling_rate / 2 * static_cast<double>(f) / static_cast<double>(frequencies - 1));
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      // In units of the distance from one filter to the next, from this one's lower end.
      const double place = (at - low) / apart - static_cast<double>(bin);
      values[static_cast<std::size_t>(f * bins + bin)] = std::max(0.0, std::min(place, 2 - place));
    }
  }
  return convert(reshape(array(values), {frequencies, bins}), dtype);
}

Array mel_spectrogram(const ArrayOperand& given, const MelSpectrogramOptions& o) {
  const Array x = given;
  if (x.ndim() < 1 || !is_float(x.dtype())) {
    throw ShapeError(
        fmt::format("[mel_spectrogram] the input is {}; give float signals [..., samples]", to_string(x.type())));
  }
  check_options(o);
  const DType wide = promote(x.dtype(), float32);
  const Array window = hann_window(o.window == 0 ? o.fft_length : o.window, o.fft_length, wide);
  const Array values = fft::rfft(frames_of(convert(x, wide), o) * window);
  // Of the square, whose slope is not that of a root at 0.
  const Array power = square(real(values)) + square(imag(values));
  const Array spectra = o.exponent == 2 ? power : pow(power, o.exponent / 2);
  const double rate = static_cast<double>(o.sampling_rate), highest = o.highest == 0 ? std::floor(rate / 2) : o.highest;
  Array y = matmul(spectra, mel_filters(o.bins, spectra.dim(-1), rate, o.lowest, highest, wide));
  if (o.to_decibels) {
    const double reference = std::log10(std::max(std::abs(o.reference_power), o.least_power));
    y = 10 * (log10(maximum(y, o.least_power)) - reference);
    y = maximum(y, max(y, Axes{-1, -2}, true) - o.range);
  }
  return convert(swapaxes(y, -1, -2), x.dtype());
}

}  // namespace lockstep
