#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>

// Element-wise functions made of the ops in ops.h, as in jax.numpy and jax.scipy.special. Operands are promoted to one
// dtype and broadcast; integers become float32 where floats are meant. All throw ShapeError where shapes do not
// broadcast and DtypeError for a dtype the function does not take.
namespace lockstep {

// ---- complex numbers: what is real is its own real part and conjugate, and has imaginary part 0 ----------------------
/// re + i im; float32 parts give complex64, float64 ones complex128, other dtypes are promoted to these.
LOCKSTEP_API Array complex(const Operand& re, const Operand& im);
/// The real part, float32 of complex64 and float64 of complex128; what is real as it is.
LOCKSTEP_API Array real(const ArrayOperand& x);
LOCKSTEP_API Array imag(const ArrayOperand& x);  ///< The imaginary part; zeros of its dtype where x is real.
/// The conjugate: the imaginary part negated; what is real as it is.
LOCKSTEP_API Array conj(const ArrayOperand& x);
/// The argument of a complex number, in radians.
LOCKSTEP_API Array angle(const ArrayOperand& x);

// ---- powers, logarithms, rounding ------------------------------------------------------------------------------------
/// x to a fixed integer power by repeated squaring, integers too. A negative exponent needs floats.
LOCKSTEP_API Array integer_pow(const ArrayOperand& x, std::int64_t exponent);
/// numpy.power: integers stay integers, and an integer scalar exponent multiplies instead of taking logarithms.
LOCKSTEP_API Array power(const Operand& x, const Operand& exponent);
LOCKSTEP_API Array reciprocal(const Operand& x);               ///< 1 / x: infinite at 0.
LOCKSTEP_API Array hypot(const Operand& a, const Operand& b);  ///< sqrt(a^2 + b^2) without overflow.
LOCKSTEP_API Array log10(const Operand& x);                    ///< The logarithm to base 10: NaN below 0, -inf at 0.
LOCKSTEP_API Array logaddexp(const Operand& a, const Operand& b);   ///< log(exp(a) + exp(b)) without overflow.
LOCKSTEP_API Array logaddexp2(const Operand& a, const Operand& b);  ///< The same in base 2.
LOCKSTEP_API Array trunc(const Operand& x);  ///< Rounded towards 0; integers and bool as they are.
/// Rounded to a number of decimals (negative: to tens, hundreds, ...), halves to even. Integers stay integers, exactly;
/// what their dtype does not hold wraps.
LOCKSTEP_API Array round(const Operand& x, int decimals);
/// As a number with fewer bits; see lax::reduce_precision.
LOCKSTEP_API Array reduce_precision(const ArrayOperand& x, int exponent_bits, int mantissa_bits);
LOCKSTEP_API Array sinc(const Operand& x);     ///< sin(pi x) / (pi x), 1 at 0.
LOCKSTEP_API Array deg2rad(const Operand& x);  ///< x pi / 180: degrees as radians.
LOCKSTEP_API Array rad2deg(const Operand& x);  ///< 180 x / pi: radians as degrees.
/// 0 below 0, `at_zero` at 0, 1 above.
LOCKSTEP_API Array heaviside(const Operand& x, const Operand& at_zero);

// ---- division with remainder: rounded downwards, the remainder has the divisor's sign --------------------------------
/// floor(a / b), integers as integers; those divided by 0 have all bits set. Of floats, an infinite a gives NaN, b = 0
/// an infinity (0 / 0: NaN). Complex numbers and bool throw DtypeError.
LOCKSTEP_API Array floor_divide(const Operand& a, const Operand& b);
/// a - b floor(a / b), of integers divided by 0 it is 0, of floats NaN; an infinite b of the other sign gives b.
/// Complex numbers and bool throw DtypeError.
LOCKSTEP_API Array remainder(const Operand& a, const Operand& b);
LOCKSTEP_API Array mod(const Operand& a, const Operand& b);  ///< remainder.
/// floor_divide and remainder.
LOCKSTEP_API std::pair<Array, Array> divmod(const Operand& a, const Operand& b);
LOCKSTEP_API Array fmod(const Operand& a, const Operand& b);  ///< The remainder with the sign of `a`, as `rem`.
/// Fractional and whole part, both with the sign of x.
LOCKSTEP_API std::pair<Array, Array> modf(const Operand& x);

// ---- signs, NaN and infinities ---------------------------------------------------------------------------------------
/// |magnitude| with the sign bit of `sign`, that of -0 and NaN too. Complex numbers throw DtypeError.
LOCKSTEP_API Array copysign(const Operand& magnitude, const Operand& sign);
LOCKSTEP_API Array signbit(const Operand& x);   ///< True for -0 and for NaN with the sign bit set.
LOCKSTEP_API Array isnan(const Operand& x);     ///< Of a complex number, of either part; integers and bool never are.
LOCKSTEP_API Array isinf(const Operand& x);     ///< Of either sign; of a complex number, of either part.
LOCKSTEP_API Array isposinf(const Operand& x);  ///< +inf alone. Complex numbers throw DtypeError.
LOCKSTEP_API Array isneginf(const Operand& x);  ///< -inf alone. Complex numbers throw DtypeError.
/// NaN and infinities replaced; by default infinities become the dtype's largest and smallest number.
LOCKSTEP_API Array nan_to_num(const ArrayOperand& x, double nan = 0, std::optional<double> posinf = std::nullopt,
                              std::optional<double> neginf = std::nullopt);
LOCKSTEP_API Array fmax(const Operand& a, const Operand& b);  ///< The larger one; the other where one is NaN.
LOCKSTEP_API Array fmin(const Operand& a, const Operand& b);  ///< The smaller one; the other where one is NaN.
/// jax.lax.clamp: `x` limited to [low, high], all of their common dtype; unlike `clip`, its derivative is 0 where x meets
/// a limit.
LOCKSTEP_API Array clamp(const Operand& low, const ArrayOperand& x, const Operand& high);

// ---- truth -----------------------------------------------------------------------------------------------------------
/// Whether both are true: all but 0 is, NaN too, here and in the three below. The result is bool.
LOCKSTEP_API Array logical_and(const Operand& a, const Operand& b);
LOCKSTEP_API Array logical_or(const Operand& a, const Operand& b);   ///< Whether a, b or both are true.
LOCKSTEP_API Array logical_xor(const Operand& a, const Operand& b);  ///< Whether one of both is true alone.
LOCKSTEP_API Array logical_not(const Operand& x);                    ///< Whether x is 0, or false.
/// |a - b| <= atol + rtol |b|; infinities are close to themselves, NaN to NaN where asked.
LOCKSTEP_API Array isclose(const Operand& a, const Operand& b, double rtol = 1e-5, double atol = 1e-8,
                           bool equal_nan = false);
/// One bool: isclose of all elements; true where there are none.
LOCKSTEP_API Array allclose(const Operand& a, const Operand& b, double rtol = 1e-5, double atol = 1e-8,
                            bool equal_nan = false);
/// One bool: shapes and all elements are equal.
LOCKSTEP_API Array array_equal(const ArrayOperand& a, const ArrayOperand& b);

// ---- special functions -----------------------------------------------------------------------------------------------
/// Hurwitz' zeta function, the sum of (q + k)^-s over k >= 0, s above 1 (ValueError else).
LOCKSTEP_API Array zeta(double s, const Operand& q);
/// The n-th derivative of digamma, n >= 0 (ValueError else).
LOCKSTEP_API Array polygamma(std::int64_t n, const Operand& x);
/// The gamma function: infinite, of the sign of zero, at 0; NaN at its poles below. Real x.
LOCKSTEP_API Array gamma(const Operand& x);
LOCKSTEP_API Array gammasgn(const Operand& x);  ///< The sign of gamma(x): NaN at its poles below 0.
/// gamma(n + 1), a float for integers too; 0 for n below 0.
LOCKSTEP_API Array factorial(const Operand& n);
/// The logarithm of the multivariate gamma function of d = `dimensions`: d (d - 1) / 4 log(pi) plus the sum of
/// log|gamma(a - i / 2)| over i < d, meant for a above (d - 1) / 2. Throws ValueError for d below 1.
LOCKSTEP_API Array multigammaln(const Operand& a, std::int64_t dimensions);
/// gamma(a) gamma(b) / gamma(a + b), with its sign.
LOCKSTEP_API Array beta(const Operand& a, const Operand& b);
/// log|beta(a, b)|, without the difference of large logarithms where one of both is large.
LOCKSTEP_API Array betaln(const Operand& a, const Operand& b);
/// How a gamma-distributed sample x of shape a moves with a, implicit in igamma(a, x) staying as it is.
LOCKSTEP_API Array random_gamma_grad(const Operand& a, const Operand& x);
/// The modified Bessel function of the first kind, order 0; infinite for large |x|, where bessel_i0e, times exp(-|x|),
/// is not.
LOCKSTEP_API Array i0(const Operand& x);
LOCKSTEP_API Array i1(const Operand& x);  ///< The same of order 1, an odd function; scaled it is bessel_i1e.
/// The Bessel function of the first kind, order n >= 0 (ValueError else).
LOCKSTEP_API Array bessel_jn(std::int64_t n, const Operand& x);
/// Gauss' hypergeometric function F(a, b; c; x) of floats, the sum of (a)_k (b)_k / (c)_k x^k / k! and what continues it
/// below -1. Infinite, as in JAX and SciPy, for x above 1 and where c is 0 or a negative integer, unless the sum ends
/// before. Its derivative is in x alone: TraceError in a, b and c.
LOCKSTEP_API Array hyp2f1(const Operand& a, const Operand& b, const Operand& c, const Operand& x);
/// The exponential integral of order n >= 0 (ValueError else), of exp(-x t) / t^n from 1 on; NaN for x below 0.
LOCKSTEP_API Array expn(std::int64_t n, const Operand& x);
/// The sine integral of x and the cosine integral of |x|: sin_integral and cos_integral.
LOCKSTEP_API std::pair<Array, Array> sici(const Operand& x);
/// Fresnel's integrals of sin(pi t^2 / 2) and of cos(pi t^2 / 2) from 0 to x, in this order: fresnel_s and fresnel_c.
LOCKSTEP_API std::pair<Array, Array> fresnel(const Operand& x);
/// The Faddeeva function exp(-z^2) erfc(-i z) of complex z, to 1e-13 of its size. Weideman, "Computation of the complex
/// error function", 1994.
LOCKSTEP_API Array wofz(const Operand& z);
/// The spherical harmonic of degree n >= 0 and order |m| <= n (ValueError else) at the polar angle theta and the azimuth
/// phi: sqrt((2n + 1) (n - m)! / (4 pi (n + m)!)) P_n^m(cos(theta)) exp(i m phi), with Condon and Shortley's sign. Complex.
LOCKSTEP_API Array sph_harm_y(std::int64_t n, std::int64_t m, const Operand& theta, const Operand& phi);
LOCKSTEP_API Array xlogy(const Operand& x, const Operand& y);     ///< x log(y), 0 where x is 0.
LOCKSTEP_API Array xlog1py(const Operand& x, const Operand& y);   ///< x log(1 + y), 0 where x is 0.
LOCKSTEP_API Array entr(const Operand& x);                        ///< -x log(x), -inf below 0; slope 0 at 0.
LOCKSTEP_API Array rel_entr(const Operand& x, const Operand& y);  ///< x log(x / y), inf outside its domain.
LOCKSTEP_API Array kl_div(const Operand& x, const Operand& y);    ///< x log(x / y) - x + y, inf outside its domain.
LOCKSTEP_API Array logit(const Operand& x);                       ///< log(x / (1 - x)).
LOCKSTEP_API Array ndtr(const Operand& x);                        ///< The standard normal distribution's integral.
LOCKSTEP_API Array log_ndtr(const Operand& x);                    ///< Its logarithm, accurate far below 0.
/// The inverse of ndtr. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988.
LOCKSTEP_API Array ndtri(const Operand& p);
LOCKSTEP_API Array boxcox(const Operand& x, const Operand& lambda);    ///< (x^lambda - 1) / lambda, log(x) at 0.
LOCKSTEP_API Array boxcox1p(const Operand& x, const Operand& lambda);  ///< boxcox(1 + x, lambda).
/// Coefficients of descending powers, at x: coefficients[0] x^(n-1) + ... + coefficients[n-1].
LOCKSTEP_API Array polyval(const ArrayOperand& coefficients, const Operand& x);

}  // namespace lockstep
