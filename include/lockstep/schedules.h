#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep {

/// Step count (a traced int32 scalar) -> float64 scalar: a traced value, so that no step traces anew, and wide, so that
/// a float64 run keeps the constant that was written.
using Schedule = std::function<Array(const Array& step)>;

namespace schedules {

LOCKSTEP_API Schedule constant(double value);  ///< `value` at every step.
/// From `initial` to alpha * initial over decay_steps along half a cosine. Loshchilov and Hutter 2017.
LOCKSTEP_API Schedule cosine(double initial, std::int64_t decay_steps, double alpha = 0.0);
/// Linear from `initial` to `peak` over warmup_steps, then cosine to `end` at decay_steps (counted from step 0).
LOCKSTEP_API Schedule warmup_cosine(double initial, double peak, std::int64_t warmup_steps, std::int64_t decay_steps,
                                    double end = 0.0);
/// values[i] up to and including boundaries[i], values.back() afterwards. Throws ValueError unless boundaries rise and
/// there is one value more than boundaries.
LOCKSTEP_API Schedule piecewise_constant(std::vector<std::int64_t> boundaries, std::vector<double> values);

}  // namespace schedules
}  // namespace lockstep
