#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/schedules.h>

#include "engine/optim/arguments.h"
#include "engine/optim/schedules/boundaries.h"

namespace lockstep::schedules {
namespace {

Array half_cosine(const Array& fraction) { return 0.5 * (1.0 + cos(std::numbers::pi * fraction)); }

}  // namespace

Schedule constant(double value) {
  check_no_nan("constant", "value", value);
  return [value](const Array&) { return full({}, value, float64); };
}

Schedule cosine(double initial, std::int64_t decay_steps, double alpha) {
  optim::check_finite("cosine", "initial", initial);
  optim::check_count("cosine", "decay_steps", decay_steps);
  optim::check_finite("cosine", "alpha", alpha);
  return [=](const Array& step) {
    const Array fraction = minimum(as_float(step) / static_cast<double>(decay_steps), 1.0);
    return initial * ((1.0 - alpha) * half_cosine(fraction) + alpha);
  };
}

Schedule warmup_cosine(double initial, double peak, std::int64_t warmup_steps, std::int64_t decay_steps, double end) {
  check_cycle("warmup_cosine", {initial, peak, warmup_steps, decay_steps, end}, "", "counts from step 0");
  return [=](const Array& step) {
    const Array count = maximum(as_float(step), 0.0);
    const double rise = warmup_steps == 0 ? 1.0 : static_cast<double>(warmup_steps);
    const Array warm = initial + (peak - initial) * (count / rise);
    const Array fraction =
        clip((count - static_cast<double>(warmup_steps)) / static_cast<double>(decay_steps - warmup_steps), 0.0, 1.0);
    const Array decayed = end + (peak - end) * half_cosine(fraction);
    return where(count < static_cast<double>(warmup_steps), warm, decayed);
  };
}

Schedule piecewise_constant(std::vector<std::int64_t> boundaries, std::vector<double> values) {
  if (values.size() != boundaries.size() + 1) {
    throw ValueError("[piecewise_constant] " + std::to_string(boundaries.size()) + " boundaries and " +
                     std::to_string(values.size()) + " values; give one value more than boundaries");
  }
  check_boundaries("piecewise_constant", boundaries);
  for (std::size_t i = 0; i < values.size(); ++i)
    check_no_nan("piecewise_constant", fmt::format("values[{}]", i), values[i]);
  return [boundaries = std::move(boundaries), values = std::move(values)](const Array& step) {
    Array value = full({}, values.back(), float64);
    for (std::size_t i = boundaries.size(); i-- > 0;) {
      value = where(is_at_most(step, boundaries[i]), full({}, values[i], float64), value);
    }
    return value;
  };
}

}  // namespace lockstep::schedules
