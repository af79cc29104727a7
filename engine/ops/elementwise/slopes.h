#pragma once

#include <functional>

#include "engine/ops/values.h"

// Slopes that a value alone does not have: where it has come within half a unit of its limit, 1 - y is 0 and the slope is
// not. Each is smooth to every order wherever the function is, at its branches too.
namespace lockstep::ops::slopes {

/// f in float32 for 16-bit floats, rounded once.
Value in_wide(const Value& x, const std::function<Value(const Value& x)>& f);

/// -|x| with one slope at 0, that of x: the sides of what is written with it meet to every order.
Value folded(const Value& x);

/// y (1 - y) of y = logistic(x), as logistic(-|x|) has it: that is exact on both sides.
Value logistic(const Value& x);
/// 1 - y^2 of y = tanh(x); beyond |y| = 1/2 by the logistic function of 2x.
Value tanh(const Value& x, const Value& y);
/// exp(-x^2), with what x^2 loses in rounding. Beyond |x| = 28 it is 0 in every dtype, and so are all its derivatives.
Value bell(const Value& x);
/// 1 / (x^2 + 1) without overflow.
Value atan(const Value& x);
/// 1 / sqrt(x^2 + 1) without overflow.
Value asinh(const Value& x);

}  // namespace lockstep::ops::slopes
