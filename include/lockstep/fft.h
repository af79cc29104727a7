#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

/// Discrete Fourier transforms as in numpy.fft and jax.numpy.fft. float64 and complex128 give complex128 (or float64),
/// float32, complex64, integers and bool complex64 (or float32); float16 and bfloat16 throw DtypeError. Axes are
/// cropped or padded with zeros at their end to the lengths asked for; a length below 1, or an axis named twice, throws
/// ShapeError.
namespace lockstep::fft {

/// Which direction is divided by what, n being the number of elements: backward divides the inverse by n, forward the
/// direct one, ortho both by sqrt(n).
enum class Norm : std::uint8_t { backward, ortho, forward };

using Length = std::optional<std::int64_t>;  ///< Of the axis; nothing: as long as it is.
using Lengths = std::optional<Axes>;         ///< One for each axis.

/// X[k] = sum over j below n of a[j] exp(-2 pi i j k / n), complex, n elements along the axis. Cooley and Tukey 1965.
LOCKSTEP_API Array fft(const ArrayOperand& a, Length n = std::nullopt, std::int64_t axis = -1,
                       Norm norm = Norm::backward);
/// Its inverse, a[j] = 1 / n sum over k of A[k] exp(2 pi i j k / n).
LOCKSTEP_API Array ifft(const ArrayOperand& a, Length n = std::nullopt, std::int64_t axis = -1,
                        Norm norm = Norm::backward);
/// Of real numbers: the first n / 2 + 1 frequencies. Complex operands throw DtypeError.
LOCKSTEP_API Array rfft(const ArrayOperand& a, Length n = std::nullopt, std::int64_t axis = -1,
                        Norm norm = Norm::backward);
/// The n (2 (m - 1) unless given) real numbers that m frequencies stand for.
LOCKSTEP_API Array irfft(const ArrayOperand& a, Length n = std::nullopt, std::int64_t axis = -1,
                         Norm norm = Norm::backward);
/// The n real frequencies of a signal that is the conjugate of its reverse, given by its first half.
LOCKSTEP_API Array hfft(const ArrayOperand& a, Length n = std::nullopt, std::int64_t axis = -1,
                        Norm norm = Norm::backward);
/// The inverse of hfft: of n real numbers the first n / 2 + 1 elements of ifft. Complex operands throw DtypeError.
LOCKSTEP_API Array ihfft(const ArrayOperand& a, Length n = std::nullopt, std::int64_t axis = -1,
                         Norm norm = Norm::backward);

/// Over several axes: the last ones, as many as there are lengths, or all. The real ones halve the last axis named.
LOCKSTEP_API Array fftn(const ArrayOperand& a, const Lengths& s = std::nullopt, const OptionalAxes& axes = std::nullopt,
                        Norm norm = Norm::backward);
/// The inverse of fftn; axes and lengths likewise.
LOCKSTEP_API Array ifftn(const ArrayOperand& a, const Lengths& s = std::nullopt,
                         const OptionalAxes& axes = std::nullopt, Norm norm = Norm::backward);
/// fftn of real numbers: n / 2 + 1 frequencies along the last axis named. Complex operands throw DtypeError, no axis
/// ShapeError.
LOCKSTEP_API Array rfftn(const ArrayOperand& a, const Lengths& s = std::nullopt,
                         const OptionalAxes& axes = std::nullopt, Norm norm = Norm::backward);
/// Back to real numbers: the last axis named has s.back() of them, 2 (m - 1) unless given. No axis throws ShapeError.
LOCKSTEP_API Array irfftn(const ArrayOperand& a, const Lengths& s = std::nullopt,
                          const OptionalAxes& axes = std::nullopt, Norm norm = Norm::backward);

/// fftn over two axes; another number of them throws ShapeError, here and in the three below.
LOCKSTEP_API Array fft2(const ArrayOperand& a, const Lengths& s = std::nullopt, const Axes& axes = {-2, -1},
                        Norm norm = Norm::backward);
/// ifftn over two axes.
LOCKSTEP_API Array ifft2(const ArrayOperand& a, const Lengths& s = std::nullopt, const Axes& axes = {-2, -1},
                         Norm norm = Norm::backward);
/// rfftn over two axes; the second one is halved.
LOCKSTEP_API Array rfft2(const ArrayOperand& a, const Lengths& s = std::nullopt, const Axes& axes = {-2, -1},
                         Norm norm = Norm::backward);
/// irfftn over two axes; the second one is the one that was halved.
LOCKSTEP_API Array irfft2(const ArrayOperand& a, const Lengths& s = std::nullopt, const Axes& axes = {-2, -1},
                          Norm norm = Norm::backward);

/// The frequencies of fft's n results for samples `d` apart: 0, 1, ..., then the negative ones, over n d. float32
/// unless another float is given. Throws ValueError for n below 1.
LOCKSTEP_API Array fftfreq(std::int64_t n, double d = 1, DType dtype = float32);
/// Those of rfft's n / 2 + 1 results, none of them negative.
LOCKSTEP_API Array rfftfreq(std::int64_t n, double d = 1, DType dtype = float32);
/// The zero frequency, element 0, moved to the middle, n / 2, of the axes (all unless given).
LOCKSTEP_API Array fftshift(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt);
/// What undoes fftshift, of odd extents too: the middle element, n / 2, moved to the front.
LOCKSTEP_API Array ifftshift(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt);

}  // namespace lockstep::fft
