#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

// Signals, as in jax.scipy.signal and jax.scipy.fft. float64 gives complex128 (or float64), all else complex64 (or
// float32).
namespace lockstep::signal {

/// How a signal is cut into segments.
struct StftOptions {
  double fs = 1;                                       ///< Samples per unit of time.
  std::int64_t segment = 256;                          ///< Samples in a segment, as many as the window has.
  std::optional<std::int64_t> overlap = std::nullopt;  ///< That neighbours share; half a segment unless given.
  std::optional<std::int64_t> length = std::nullopt;   ///< Of the transform; the segment unless given.
  std::optional<Array> window = std::nullopt;          ///< [segment]; the periodic Hann window unless given.
  bool boundary = true;                                ///< Half a segment of zeros at both ends.
  bool padded = true;                                  ///< Zeros behind it, so that segments take all of it.
};
/// What stft gives.
struct Stft {
  Array frequencies;  ///< [f], in units of fs.
  Array times;        ///< [t]: the middle of each segment.
  Array values;       ///< [..., f, t], complex.
};
/// Fourier transforms of windowed segments along the last axis, divided by the sum of the window: of real signals the
/// length / 2 + 1 frequencies that rfft has, of complex ones all. A segment longer than the signal is cut to it. Throws
/// ValueError for numbers that do not fit, ShapeError for a scalar or for a window of another size.
/// (jax.scipy.signal.stft)
LOCKSTEP_API Stft stft(const ArrayOperand& x, const StftOptions& options = {});
/// The real signal (complex without `onesided`) of such values [..., f, t], by the overlapping segments that fit best;
/// with the options that stft was given, but that `boundary` takes its zeros away. The last samples may be zeros that
/// `padded` added. Throws as stft does. (jax.scipy.signal.istft)
LOCKSTEP_API Array istft(const ArrayOperand& values, const StftOptions& options = {}, bool onesided = true);

/// The convolution of all dimensions by Fourier transforms: mode "full", "same" (the extents of a, from the middle) or
/// "valid" (where one lies wholly in the other). Throws ShapeError where ranks differ, or of "valid" neither holds the
/// other, ValueError for another mode. (jax.scipy.signal.fftconvolve)
LOCKSTEP_API Array fftconvolve(const ArrayOperand& a, const ArrayOperand& b, std::string_view mode = "full");
/// The same of two matrices by sums of products; of small ones. (jax.scipy.signal.convolve2d)
LOCKSTEP_API Array convolve2d(const ArrayOperand& a, const ArrayOperand& b, std::string_view mode = "full");
/// The correlation: b is not flipped, and conjugated. (jax.scipy.signal.correlate2d)
LOCKSTEP_API Array correlate2d(const ArrayOperand& a, const ArrayOperand& b, std::string_view mode = "full");

/// Less the mean, or less the line of least squares, along an axis. (jax.scipy.signal.detrend)
LOCKSTEP_API Array detrend(const ArrayOperand& x, bool linear = true, std::int64_t axis = -1);

/// The cosine transform of type 2 along an axis, y[k] = 2 sum over j of x[j] cos(pi k (2 j + 1) / (2 n)); `ortho` makes it
/// orthogonal. Of no elements ShapeError. (jax.scipy.fft.dct)
LOCKSTEP_API Array dct(const ArrayOperand& x, std::int64_t axis = -1, bool ortho = false);
/// What undoes it. (jax.scipy.fft.idct)
LOCKSTEP_API Array idct(const ArrayOperand& x, std::int64_t axis = -1, bool ortho = false);
/// dct over several axes, all unless given.
LOCKSTEP_API Array dctn(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool ortho = false);
/// What undoes it.
LOCKSTEP_API Array idctn(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool ortho = false);

}  // namespace lockstep::signal
