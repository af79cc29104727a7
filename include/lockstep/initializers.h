#pragma once

#include <functional>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep {

/// (key, shape, dtype) -> initial value.
using Initializer = std::function<Array(const Array& key, const Shape& shape, DType dtype)>;

namespace initializers {

LOCKSTEP_API Initializer zeros();
LOCKSTEP_API Initializer ones();
LOCKSTEP_API Initializer constant(double value);
LOCKSTEP_API Initializer normal(double stddev = 0.05);
/// Normal cut off at two standard deviations of the underlying distribution, which is rescaled so that the result has
/// `stddev`.
LOCKSTEP_API Initializer truncated_normal(double stddev = 0.05);
/// Uniform on [low, high).
LOCKSTEP_API Initializer uniform(double low = -0.05, double high = 0.05);

/// Orthonormal rows or columns, whichever are fewer, of the last dimension and all others merged, times `scale`. Throws
/// ShapeError below rank 2. Saxe et al. 2014.
LOCKSTEP_API Initializer orthogonal(double scale = 1);

// The scaled families draw with variance scale / fan. A kernel's last dimension is its output, the one before its input,
// all others multiply both (a convolution's window).
/// Uniform with variance 2 / (fan_in + fan_out). Glorot and Bengio 2010.
LOCKSTEP_API Initializer glorot_uniform();
LOCKSTEP_API Initializer glorot_normal();
/// Variance 2 / fan_in. He et al. 2015.
LOCKSTEP_API Initializer he_uniform();
LOCKSTEP_API Initializer he_normal();
/// Variance 1 / fan_in. LeCun et al. 1998.
LOCKSTEP_API Initializer lecun_uniform();
LOCKSTEP_API Initializer lecun_normal();

}  // namespace initializers
}  // namespace lockstep
