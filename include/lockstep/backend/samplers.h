#pragma once

#include <array>
#include <cstdint>

#include <lockstep/export.h>

/// One draw each from distributions that need a loop, as functions of a Threefry key: what kernels and the engine
/// compute alike. The public draws are in random.h.
namespace lockstep::backend::samplers {

using Key = std::array<std::uint32_t, 2>;

/// A gamma variate of shape a > 0 and scale 1, or its logarithm; NaN for a < 0. T is float or double. The draws from the
/// key, and so the value up to rounding, are those of jax.random.gamma.
/// Marsaglia, Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
template <class T>
LOCKSTEP_API T gamma(Key key, T a, bool log_space);

/// The derivative in a of a gamma variate at a fixed quantile: -(dP(a, x)/da) / (dP(a, x)/dx), P being the distribution
/// function. With `log_space`, `sample` is log(x) and so is what is differentiated.
/// Figurnov, Mohamed, Mnih, "Implicit reparameterization gradients", NeurIPS 2018.
LOCKSTEP_API double gamma_grad(double a, double sample, bool log_space);

/// A Poisson variate, -1 where the rate is negative or NaN, infinity where it is infinite.
/// Knuth's product of uniforms below rate 10; above, Hoermann, "The transformed rejection method for generating Poisson
/// random variables", Insurance: Mathematics and Economics 12 (1993).
LOCKSTEP_API double poisson(Key key, double rate);

/// The successes among n (rounded down) trials of probability p; NaN for a negative n or a p outside [0, 1], infinity
/// for an infinite n.
/// Sums of geometric variates where n min(p, 1 - p) is below 10; above, Hoermann, "The generation of binomial random
/// variates", Journal of Statistical Computation and Simulation 46 (1993).
LOCKSTEP_API double binomial(Key key, double n, double p);

}  // namespace lockstep::backend::samplers
