#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep {

/// Step count (a traced int32 scalar) -> float64 scalar: a traced value, so that no step traces anew, and wide, so that
/// a float64 run keeps the constant that was written.
using Schedule = std::function<Array(const Array& step)>;

/// Throw ValueError naming schedule and argument for what can never be meant: values that are NaN; infinite ones but those of
/// `constant` and `piecewise_constant`, as a limit that is none yet; counts of steps below 1, or below 0 of parts that may be
/// left out. (Optax takes a line, a power or a decay over 0 steps or fewer for a constant, and says so in its log.) Values
/// may be negative. Boundaries may lie beyond the last step: what comes behind them is not reached.
namespace schedules {

LOCKSTEP_API Schedule constant(double value);  ///< `value` at every step.
/// From `initial` to alpha * initial over decay_steps >= 1 along half a cosine. Loshchilov and Hutter 2017.
LOCKSTEP_API Schedule cosine(double initial, std::int64_t decay_steps, double alpha = 0.0);
/// Linear from `initial` to `peak` over warmup_steps >= 0, then cosine to `end` at decay_steps (counted from step 0).
LOCKSTEP_API Schedule warmup_cosine(double initial, double peak, std::int64_t warmup_steps, std::int64_t decay_steps,
                                    double end = 0.0);
/// values[i] up to and including boundaries[i], values.back() afterwards. Throws ValueError unless boundaries rise from 0 or
/// more and there is one value more than boundaries.
LOCKSTEP_API Schedule piecewise_constant(std::vector<std::int64_t> boundaries, std::vector<double> values);

/// From `initial` to `end` along a straight line over `steps`, from step `begin` on; `end` afterwards. Throws
/// ValueError unless steps >= 1 and begin >= 0.
LOCKSTEP_API Schedule linear(double initial, double end, std::int64_t steps, std::int64_t begin = 0);
/// end + (initial - end) (1 - progress)^power, progress going from 0 at step `begin` to 1 over `steps`.
LOCKSTEP_API Schedule polynomial(double initial, double end, double power, std::int64_t steps, std::int64_t begin = 0);
/// How `exponential_decay` goes.
struct ExponentialDecayOptions {
  std::int64_t begin = 0;          ///< It is `initial` up to this step.
  bool staircase = false;          ///< By whole powers alone: constant for `steps` steps.
  std::optional<double> end = {};  ///< What it does not pass.
};
/// initial * rate^((step - begin) / steps). Throws ValueError unless rate is > 0.
LOCKSTEP_API Schedule exponential_decay(double initial, std::int64_t steps, double rate,
                                        ExponentialDecayOptions options = {});
/// One period of `cosine_restarts`: a warmup_cosine.
struct CosineCycle {
  double initial = 0;             ///< Where it starts.
  double peak = 1;                ///< Where the warm-up ends.
  std::int64_t warmup_steps = 0;  ///< Of the straight line to the peak.
  std::int64_t decay_steps = 1;   ///< Of the whole period.
  double end = 0;                 ///< Where the cosine ends.
};
/// One warmup_cosine after the other; the last one's end afterwards. Loshchilov and Hutter 2017. Throws ValueError where
/// there is none.
LOCKSTEP_API Schedule cosine_restarts(const std::vector<CosineCycle>& cycles);
/// Linear from `initial` to `peak` over warmup_steps, `peak` for stable_steps, linear to `end` over decay_steps. Hu et
/// al. 2024, "MiniCPM".
LOCKSTEP_API Schedule warmup_stable_decay(double peak, std::int64_t warmup_steps, std::int64_t stable_steps,
                                          std::int64_t decay_steps, double initial = 0, double end = 0);
/// How the one-cycle schedules go.
struct OnecycleOptions {
  double rise = 0.3;             ///< Share of the steps until the peak.
  double fall = 0.85;            ///< Of linear_onecycle: share until the start's value is reached again.
  double start_divisor = 25;     ///< It starts at the peak divided by this.
  double final_divisor = 10000;  ///< It ends at that divided by this.
};
/// Straight lines from peak / start_divisor to `peak`, back, and to the end. Smith and Topin 2018. Throws ValueError unless
/// 0 < rise < fall < 1 and divisors are > 0.
LOCKSTEP_API Schedule linear_onecycle(std::int64_t steps, double peak, OnecycleOptions options = {});
/// Half a cosine from peak / start_divisor to `peak`, and one to the end. `fall` is not read. Throws
/// ValueError unless 0 < rise < 1 and divisors are > 0.
LOCKSTEP_API Schedule cosine_onecycle(std::int64_t steps, double peak, OnecycleOptions options = {});
/// The first schedule up to the first boundary, from there on the next one, whose steps count from that boundary, and so
/// on; with a boundary of 0 it is left out. Throws ValueError unless boundaries rise from 0 or more and there is one
/// schedule, none of them empty, more than boundaries.
LOCKSTEP_API Schedule join(std::vector<Schedule> schedules, std::vector<std::int64_t> boundaries);

}  // namespace schedules
}  // namespace lockstep
