#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/types.h>

// The activation functions of jax.nn beyond those in ops.h, with its values and its derivatives at kinks. Integers
// become float32; float16 and bfloat16 are computed in float32 and rounded once. At infinities they are their limits,
// where JAX has NaN: 0 or x of the rectifiers (silu and gelu too), with slopes 0 and 1.
namespace lockstep {

LOCKSTEP_API Array relu6(const ArrayOperand& x);  ///< min(max(x, 0), 6); derivative 0 at 0 and at 6.
/// x above 0, else alpha (exp(x) - 1).
LOCKSTEP_API Array elu(const ArrayOperand& x, double alpha = 1);
/// x above 0, else alpha (exp(x / alpha) - 1).
LOCKSTEP_API Array celu(const ArrayOperand& x, double alpha = 1);
/// elu, scaled so that layers keep mean and variance. Klambauer et al., "Self-normalizing neural networks", 2017.
LOCKSTEP_API Array selu(const ArrayOperand& x);
/// The first half along the axis times the sigmoid of the second. Throws ShapeError for an odd extent.
LOCKSTEP_API Array glu(const ArrayOperand& x, std::int64_t axis = -1);
/// x from 0 on, else negative_slope x.
LOCKSTEP_API Array leaky_relu(const ArrayOperand& x, double negative_slope = 0.01);
LOCKSTEP_API Array hard_tanh(const ArrayOperand& x);     ///< x limited to [-1, 1].
LOCKSTEP_API Array hard_sigmoid(const ArrayOperand& x);  ///< relu6(x + 3) / 6.
LOCKSTEP_API Array hard_silu(const ArrayOperand& x);     ///< x hard_sigmoid(x); also known as hard swish.
LOCKSTEP_API Array log_sigmoid(const ArrayOperand& x);   ///< log(sigmoid(x)), without overflow: -softplus(-x).
LOCKSTEP_API Array mish(const ArrayOperand& x);          ///< x tanh(softplus(x)).
LOCKSTEP_API Array squareplus(const ArrayOperand& x, double b = 4);  ///< (x + sqrt(x^2 + b)) / 2.
LOCKSTEP_API Array soft_sign(const ArrayOperand& x);                 ///< x / (|x| + 1).
LOCKSTEP_API Array sparse_plus(const ArrayOperand& x);               ///< 0 below -1, x above 1, (x + 1)^2 / 4 between.
LOCKSTEP_API Array sparse_sigmoid(const ArrayOperand& x);            ///< Its slope: clip(x + 1, 0, 2) / 2.
LOCKSTEP_API Array log1mexp(const ArrayOperand& x);                  ///< log(1 - exp(-x)) for x above 0.
/// x where |x| is above the threshold, else 0. (Keras' hard_shrink)
LOCKSTEP_API Array hard_shrink(const ArrayOperand& x, double threshold = 0.5);
/// x moved towards 0 by the threshold, 0 where it is no further away. (Keras' soft_shrink)
LOCKSTEP_API Array soft_shrink(const ArrayOperand& x, double threshold = 0.5);
LOCKSTEP_API Array tanh_shrink(const ArrayOperand& x);  ///< x - tanh(x).
/// max(x - t, 0) with a sum of 1 along the axis: the point of the simplex nearest to x. t is the mean of the elements
/// above it, less 1 over their number; which these are passes no derivative. Martins and Astudillo 2016.
LOCKSTEP_API Array sparsemax(const ArrayOperand& x, std::int64_t axis = -1);
/// x less its mean, over the square root of its variance plus epsilon.
LOCKSTEP_API Array standardize(const ArrayOperand& x, std::int64_t axis = -1, double epsilon = 1e-5);
/// Of the elements where `mask`, of bool, holds; the others get 0. All 0 where none is held.
LOCKSTEP_API Array softmax(const ArrayOperand& x, const ArrayOperand& mask, std::int64_t axis = -1);
/// The same as logarithms; the others get -inf.
LOCKSTEP_API Array log_softmax(const ArrayOperand& x, const ArrayOperand& mask, std::int64_t axis = -1);

}  // namespace lockstep
