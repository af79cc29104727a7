#pragma once

#include <functional>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep {

/// (key, shape, dtype) -> initial value.
using Initializer = std::function<Array(const Array& key, const Shape& shape, DType dtype)>;

namespace initializers {

LOCKSTEP_API Initializer zeros();                 ///< All 0, of any dtype.
LOCKSTEP_API Initializer ones();                  ///< All 1, of any dtype.
LOCKSTEP_API Initializer constant(double value);  ///< All `value`, converted to the dtype.
/// Normal of mean 0 and standard deviation `stddev`; floats, as all that follow.
LOCKSTEP_API Initializer normal(double stddev = 0.05);
/// Normal cut off at two standard deviations of the underlying distribution, which is rescaled so that the result has
/// `stddev`.
LOCKSTEP_API Initializer truncated_normal(double stddev = 0.05);
/// Uniform on [low, high).
LOCKSTEP_API Initializer uniform(double low = -0.05, double high = 0.05);

/// Orthonormal rows or columns, whichever are fewer, of the last dimension and all others merged, times `scale`. Throws
/// ShapeError below rank 2. Saxe et al. 2014.
LOCKSTEP_API Initializer orthogonal(double scale = 1);

// The scaled families draw with variance scale / fan, of a fan of at least 1, around 0. A kernel's last dimension is
// its output, the one before its input, all others multiply both (a convolution's window).
/// Uniform with variance 2 / (fan_in + fan_out). Glorot and Bengio 2010.
LOCKSTEP_API Initializer glorot_uniform();
/// The same variance, normal cut off at two standard deviations as truncated_normal.
LOCKSTEP_API Initializer glorot_normal();
/// Uniform with variance 2 / fan_in. He et al. 2015.
LOCKSTEP_API Initializer he_uniform();
LOCKSTEP_API Initializer he_normal();  ///< The same variance, as glorot_normal.
/// Uniform with variance 1 / fan_in. LeCun et al. 1998.
LOCKSTEP_API Initializer lecun_uniform();
LOCKSTEP_API Initializer lecun_normal();  ///< The same variance, as glorot_normal.

}  // namespace initializers
}  // namespace lockstep
