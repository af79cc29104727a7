#pragma once

#include "backends/jit/code.h"

// Functions of a float as steps. Each is defined by its steps alone: fused multiply-adds stand where they stand here, so
// the bits are the same on every processor. x is a step; so is what is given back. The bounds, in units in the last
// place of the exact value, are tested.
namespace lockstep::backend::jit::functions {

int negative(Code& code, int x);
int magnitude(Code& code, int x);
/// a > b or a is NaN: a, else b.
int maximum(Code& code, int a, int b);
int minimum(Code& code, int a, int b);
/// 1, -1, or x where it is 0 or NaN.
int sign(Code& code, int x);
/// Towards zero; beyond the range its end; NaN is 0.
int to_int32(Code& code, int x);

/// e^x, within 1 unit. Cody and Waite's reduction by multiples of log 2, then a polynomial.
int exp(Code& code, int x);
/// 2^x, within 1 unit; exact of whole x. As exp, the multiple of log 2 in two parts.
int exp2(Code& code, int x);
/// e^x - 1, within 2 units.
int expm1(Code& code, int x);
/// The natural logarithm, within 1 unit: of m 2^k as k log 2 + log m, log m by a series in (m - 1) / (m + 1).
int log(Code& code, int x);
/// log(1 + x), within 1 unit.
int log1p(Code& code, int x);
/// Within 3 units, from expm1(-2 |x|).
int tanh(Code& code, int x);
/// 1 / (1 + e^-x), within 3 units.
int logistic(Code& code, int x);
/// Within 2 units: a polynomial in x^2 near 0, 1 - e^p(|x|) beyond.
int erf(Code& code, int x);
/// 1 - erf(x), within 4 units in its tail too.
int erfc(Code& code, int x);

}  // namespace lockstep::backend::jit::functions
