#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>

// Element-wise functions made of the ops in ops.h, as in jax.numpy and jax.scipy.special. Operands are promoted to one
// dtype and broadcast; integers become float32 where floats are meant. All throw ShapeError where shapes do not broadcast
// and DtypeError for a dtype the function does not take.
namespace lockstep {

// ---- complex numbers: what is real is its own real part and conjugate, and has imaginary part 0 ----------------------
/// re + i im; float32 parts give complex64, float64 ones complex128, other dtypes are promoted to these.
LOCKSTEP_API Array complex(const Operand& re, const Operand& im);
LOCKSTEP_API Array real(const ArrayOperand& x);
LOCKSTEP_API Array imag(const ArrayOperand& x);
LOCKSTEP_API Array conj(const ArrayOperand& x);
/// The argument of a complex number, in radians.
LOCKSTEP_API Array angle(const ArrayOperand& x);

// ---- powers, logarithms, rounding ------------------------------------------------------------------------------------
/// x to a fixed integer power by repeated squaring, integers too. A negative exponent needs floats.
LOCKSTEP_API Array integer_pow(const ArrayOperand& x, std::int64_t exponent);
/// numpy.power: integers stay integers, and an integer scalar exponent multiplies instead of taking logarithms.
LOCKSTEP_API Array power(const Operand& x, const Operand& exponent);
LOCKSTEP_API Array reciprocal(const Operand& x);
LOCKSTEP_API Array hypot(const Operand& a, const Operand& b);  ///< sqrt(a^2 + b^2) without overflow.
LOCKSTEP_API Array log10(const Operand& x);
LOCKSTEP_API Array logaddexp(const Operand& a, const Operand& b);   ///< log(exp(a) + exp(b)) without overflow.
LOCKSTEP_API Array logaddexp2(const Operand& a, const Operand& b);  ///< The same in base 2.
LOCKSTEP_API Array trunc(const Operand& x);
/// Rounded to a number of decimals (negative: to tens, hundreds, ...), halves to even.
LOCKSTEP_API Array round(const Operand& x, int decimals);
/// As a number with fewer bits; see lax::reduce_precision.
LOCKSTEP_API Array reduce_precision(const ArrayOperand& x, int exponent_bits, int mantissa_bits);
LOCKSTEP_API Array sinc(const Operand& x);  ///< sin(pi x) / (pi x), 1 at 0.
LOCKSTEP_API Array deg2rad(const Operand& x);
LOCKSTEP_API Array rad2deg(const Operand& x);
/// 0 below 0, `at_zero` at 0, 1 above.
LOCKSTEP_API Array heaviside(const Operand& x, const Operand& at_zero);

// ---- division with remainder: rounded downwards, the remainder has the divisor's sign --------------------------------
LOCKSTEP_API Array floor_divide(const Operand& a, const Operand& b);
LOCKSTEP_API Array remainder(const Operand& a, const Operand& b);
LOCKSTEP_API Array mod(const Operand& a, const Operand& b);  ///< remainder.
LOCKSTEP_API std::pair<Array, Array> divmod(const Operand& a, const Operand& b);
LOCKSTEP_API Array fmod(const Operand& a, const Operand& b);  ///< The remainder with the sign of `a`, as `rem`.
/// Fractional and whole part, both with the sign of x.
LOCKSTEP_API std::pair<Array, Array> modf(const Operand& x);

// ---- signs, NaN and infinities ---------------------------------------------------------------------------------------
LOCKSTEP_API Array copysign(const Operand& magnitude, const Operand& sign);
LOCKSTEP_API Array signbit(const Operand& x);  ///< True for -0 and for NaN with the sign bit set.
LOCKSTEP_API Array isnan(const Operand& x);
LOCKSTEP_API Array isinf(const Operand& x);
LOCKSTEP_API Array isposinf(const Operand& x);
LOCKSTEP_API Array isneginf(const Operand& x);
/// NaN and infinities replaced; by default infinities become the dtype's largest and smallest number.
LOCKSTEP_API Array nan_to_num(const ArrayOperand& x, double nan = 0, std::optional<double> posinf = std::nullopt,
                              std::optional<double> neginf = std::nullopt);
/// The larger (smaller) operand, the other one where one is NaN.
LOCKSTEP_API Array fmax(const Operand& a, const Operand& b);
LOCKSTEP_API Array fmin(const Operand& a, const Operand& b);
/// jax.lax.clamp: `x` limited to [low, high]; unlike `clip`, its derivative is 0 where x meets a limit.
LOCKSTEP_API Array clamp(const Operand& low, const ArrayOperand& x, const Operand& high);

// ---- truth -----------------------------------------------------------------------------------------------------------
LOCKSTEP_API Array logical_and(const Operand& a, const Operand& b);
LOCKSTEP_API Array logical_or(const Operand& a, const Operand& b);
LOCKSTEP_API Array logical_xor(const Operand& a, const Operand& b);
LOCKSTEP_API Array logical_not(const Operand& x);
/// |a - b| <= atol + rtol |b|; infinities are close to themselves, NaN to NaN where asked.
LOCKSTEP_API Array isclose(const Operand& a, const Operand& b, double rtol = 1e-5, double atol = 1e-8,
                           bool equal_nan = false);
LOCKSTEP_API Array allclose(const Operand& a, const Operand& b, double rtol = 1e-5, double atol = 1e-8,
                            bool equal_nan = false);
/// One bool: shapes and all elements are equal.
LOCKSTEP_API Array array_equal(const ArrayOperand& a, const ArrayOperand& b);

// ---- special functions -----------------------------------------------------------------------------------------------
/// Hurwitz' zeta function, the sum of (q + k)^-s over k >= 0, s above 1 (ValueError else).
LOCKSTEP_API Array zeta(double s, const Operand& q);
/// The n-th derivative of digamma, n >= 0 (ValueError else).
LOCKSTEP_API Array polygamma(std::int64_t n, const Operand& x);
LOCKSTEP_API Array gamma(const Operand& x);
LOCKSTEP_API Array gammasgn(const Operand& x);  ///< The sign of gamma(x): NaN at its poles below 0.
LOCKSTEP_API Array factorial(const Operand& n);
LOCKSTEP_API Array multigammaln(const Operand& a, std::int64_t dimensions);
LOCKSTEP_API Array beta(const Operand& a, const Operand& b);
LOCKSTEP_API Array betaln(const Operand& a, const Operand& b);
/// How a gamma-distributed sample x of shape a moves with a, implicit in igamma(a, x) staying as it is.
LOCKSTEP_API Array random_gamma_grad(const Operand& a, const Operand& x);
LOCKSTEP_API Array i0(const Operand& x);
LOCKSTEP_API Array i1(const Operand& x);
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
