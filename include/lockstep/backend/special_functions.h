#pragma once

#include <cstdint>

#include <lockstep/export.h>

// Special functions of one number in double. They are defined here, once, so that the references of the ops and every
// kernel compute the same bits: a kernel of a narrower dtype computes in double and rounds.
namespace lockstep::backend::special {

/// The logarithm of |Gamma(x)|; infinite at 0 and the negative integers.
LOCKSTEP_API double lgamma(double x);

/// The derivative of lgamma; NaN at 0 and the negative integers. Recurrence and asymptotic series, DLMF 5.5.2, 5.11.2;
/// reflection, 5.5.4.
LOCKSTEP_API double digamma(double x);

/// Hurwitz' zeta function, the sum of (q + k)^-s over k >= 0, for s > 1; infinite at s = 1 and where q + k is 0, NaN for
/// s < 1 and, where q is negative, for s that is no integer. Euler and Maclaurin's formula, DLMF 25.11.5.
LOCKSTEP_API double zeta(double s, double q);

/// The regularised lower incomplete gamma function P(a, x) for a >= 0 and x >= 0 (not both 0), else NaN. By the power
/// series, DLMF 8.11.4, or as 1 - Q.
LOCKSTEP_API double igamma(double a, double x);
/// The upper one, Q(a, x) = 1 - P(a, x). By Legendre's continued fraction, DLMF 8.9.2, or as 1 - P.
LOCKSTEP_API double igammac(double a, double x);
/// The derivative of P(a, x) in a: the same series and fraction, differentiated term by term.
LOCKSTEP_API double igamma_grad_a(double a, double x);

/// The regularised incomplete beta function I_x(a, b) for a >= 0, b >= 0 (not both 0) and x in [0, 1], else NaN. By the continued
/// fraction DLMF 8.17.22.
LOCKSTEP_API double betainc(double a, double b, double x);

/// exp(-|x|) I0(x), modified Bessel functions of the first kind: power series, DLMF 10.25.2, or asymptotic one, 10.40.1.
LOCKSTEP_API double bessel_i0e(double x);
/// exp(-|x|) I1(x).
LOCKSTEP_API double bessel_i1e(double x);

/// The Bessel function of the first kind, order 0; the C library's.
LOCKSTEP_API double bessel_j0(double x);
/// Of order 1; likewise.
LOCKSTEP_API double bessel_j1(double x);

/// Of order n, any n that an int holds; likewise.
LOCKSTEP_API double bessel_jn(std::int64_t n, double x);

/// Dawson's integral exp(-x^2) times the integral of exp(t^2) from 0 to x. Power series, DLMF 7.6.2 times exp(-x^2);
/// Rybicki's sum (1989); asymptotic series, 7.12.1.
LOCKSTEP_API double dawsn(double x);
/// exp(x^2) erfc(x); infinite far below 0. In long double; asymptotic series, DLMF 7.12.1.
LOCKSTEP_API double erfcx(double x);
/// Owen's function T(h, a), the integral of exp(-h^2 (1 + t^2) / 2) / (1 + t^2) from 0 to a, over 2 pi. By Gauss and
/// Legendre's rule; beyond |a| = 1 from T(a h, 1 / a) (Owen 1956).
LOCKSTEP_API double owens_t(double h, double a);

/// Si(x), the integral of sin(t) / t from 0 to x. Power series, DLMF 6.6.5; continued fraction of E1(i x), 6.9.1.
LOCKSTEP_API double sin_integral(double x);
/// Ci(x), Euler's constant + log(x) + the integral of (cos(t) - 1) / t from 0 to x; -infinity at 0, NaN below.
LOCKSTEP_API double cos_integral(double x);
/// The integral of sin(pi t^2 / 2) from 0 to x. Power series, DLMF 7.6.6; continued fraction of erfc, 7.9.1.
LOCKSTEP_API double fresnel_s(double x);
/// The same of cos(pi t^2 / 2).
LOCKSTEP_API double fresnel_c(double x);

/// The confluent hypergeometric function M(a, b, x), the sum of (a)_k / (b)_k x^k / k!; infinite where b is 0 or a negative
/// integer, unless the sum ends before. Power series, DLMF 13.2.2, in long double, from there its differential equation,
/// 13.2.1, by Taylor series; Kummer's transformation, 13.2.39; asymptotic series, 13.7.1.
LOCKSTEP_API double hyp1f1(double a, double b, double x);
/// Gauss' hypergeometric function F(a, b; c; x), the sum of (a)_k (b)_k / (c)_k x^k / k! and what continues it below -1;
/// infinite where c is 0 or a negative integer and for x above 1, unless the sum ends or is a real power times one that
/// does. Power series, DLMF 15.2.1, and differential equation, 15.10.1, likewise; Euler's and Pfaff's transformations,
/// 15.8.1.
LOCKSTEP_API double hyp2f1(double a, double b, double c, double x);

/// The exponential integral of order n >= 0, of exp(-x t) / t^n from 1 on, x >= 0. Power series, DLMF 8.19.8; continued
/// fraction, 8.19.17.
LOCKSTEP_API double expn(std::int64_t n, double x);
/// The exponential integral E1(x), the integral of exp(-t) / t from x on; infinite at 0, NaN below. Power series, DLMF
/// 6.6.2, or Stieltjes' continued fraction, 6.9.1.
LOCKSTEP_API double exp1(double x);
/// Ei(x), the principal value of the integral of exp(t) / t up to x; -infinity at 0. Power series, DLMF 6.6.1, from Ei's zero
/// where that is close; asymptotic series, 6.12.2; -E1(-x) below 0.
LOCKSTEP_API double expi(double x);

/// The dilogarithm of 1 - x, the integral of log(t) / (1 - t) from 1 to x; NaN below 0. The series in log(x) with Bernoulli's
/// numbers (Lewin, "Polylogarithms and associated functions", 1981, 1.3); reflection and inversion, DLMF 25.12.6 and 25.12.4.
LOCKSTEP_API double spence(double x);

/// x, of a float format with `given_exponent_bits`, rounded to the nearest number of one with the other widths, ties to
/// even. With fewer exponent bits, too large numbers become infinite and those below the normal range zero.
LOCKSTEP_API double reduce_precision(double x, int given_exponent_bits, int exponent_bits, int mantissa_bits);

}  // namespace lockstep::backend::special
