#include <algorithm>
#include <initializer_list>
#include <numbers>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/schedules.h>

#include "engine/optim/arguments.h"
#include "engine/optim/schedules/boundaries.h"

namespace lockstep::schedules {
namespace {

/// The sum of steps, which must be one that can be counted.
std::int64_t sum_of(std::string_view schedule, std::initializer_list<std::int64_t> parts) {
  std::int64_t sum = 0;
  for (const std::int64_t part : parts) {
    if (!__builtin_add_overflow(sum, part, &sum)) continue;
    throw ValueError(fmt::format("[{}] its steps are {} in all, more than can be counted; give fewer", schedule,
                                 fmt::join(parts, " + ")));
  }
  return sum;
}

void check_onecycle_arguments(std::string_view schedule, std::int64_t steps, double peak, const OnecycleOptions& o) {
  optim::check_count(schedule, "steps", steps);
  optim::check_finite(schedule, "peak", peak);
  optim::check_positive(schedule, "start_divisor", o.start_divisor);
  optim::check_positive(schedule, "final_divisor", o.final_divisor);
}

/// From values[i] at bounds[i] to values[i + 1] at bounds[i + 1], values.back() afterwards, values[0] before.
template <class Between>
Schedule between(std::vector<std::int64_t> bounds, std::vector<double> values, Between way) {
  return [bounds = std::move(bounds), values = std::move(values), way](const Array& step) {
    const Array count = maximum(as_float(step), 0.0);
    Array value = full({}, values.back(), float64);
    for (std::size_t i = bounds.size() - 1; i-- > 0;) {
      const auto begin = static_cast<double>(bounds[i]), length = static_cast<double>(bounds[i + 1] - bounds[i]);
      const Array piece = way(values[i], values[i + 1], (count - begin) / std::max(length, 1.0));
      value = where(is_before(step, bounds[i + 1]), piece, value);
    }
    return value;
  };
}

void check_ends(std::string_view schedule, double initial, double end) {
  optim::check_finite(schedule, "initial", initial);
  optim::check_finite(schedule, "end", end);
}

std::int64_t share_of(std::int64_t steps, double share) {
  return static_cast<std::int64_t>(share * static_cast<double>(steps));
}

}  // namespace

Schedule linear(double initial, double end, std::int64_t steps, std::int64_t begin) {
  check_ends("linear", initial, end);
  optim::check_count("linear", "steps", steps);
  optim::check_count("linear", "begin", begin, 0);
  return polynomial(initial, end, 1, steps, begin);
}

Schedule polynomial(double initial, double end, double power, std::int64_t steps, std::int64_t begin) {
  check_ends("polynomial", initial, end);
  optim::check_count("polynomial", "steps", steps);
  optim::check_count("polynomial", "begin", begin, 0);
  optim::check_positive("polynomial", "power", power);
  return [=](const Array& step) {
    const auto length = static_cast<double>(steps);
    const Array left = 1.0 - clip(as_float(step) - static_cast<double>(begin), 0.0, length) / length;
    const Array fraction = power == 1 ? left : pow(left, full({}, power, float64));
    return (initial - end) * fraction + end;
  };
}

Schedule exponential_decay(double initial, std::int64_t steps, double rate, ExponentialDecayOptions options) {
  optim::check_finite("exponential_decay", "initial", initial);
  optim::check_count("exponential_decay", "steps", steps);
  optim::check_count("exponential_decay", "begin", options.begin, 0);
  optim::check_positive("exponential_decay", "rate", rate);
  if (options.end) optim::check_finite("exponential_decay", "end", *options.end);
  return [=](const Array& step) {
    const Array since = as_float(step) - static_cast<double>(options.begin);
    const Array periods = since / static_cast<double>(steps);
    const Array exponent = options.staircase ? floor(periods) : periods;
    const Array decayed = where(since <= 0, initial, initial * pow(full({}, rate, float64), exponent));
    if (!options.end) return decayed;
    return rate < 1 ? maximum(decayed, *options.end) : minimum(decayed, *options.end);
  };
}

Schedule cosine_restarts(const std::vector<CosineCycle>& cycles) {
  if (cycles.empty()) throw ValueError("[cosine_restarts] there is no cycle; give at least one CosineCycle");
  std::vector<Schedule> each;
  std::vector<std::int64_t> boundaries;
  std::int64_t begin = 0;
  for (const CosineCycle& c : cycles) {
    check_cycle("cosine_restarts", c, fmt::format(" of cycle {}", each.size()), "is the whole cycle's");
    each.push_back(warmup_cosine(c.initial, c.peak, c.warmup_steps, c.decay_steps, c.end));
    begin = sum_of("cosine_restarts", {begin, c.decay_steps});
    boundaries.push_back(begin);
  }
  boundaries.pop_back();
  return join(std::move(each), std::move(boundaries));
}

Schedule warmup_stable_decay(double peak, std::int64_t warmup_steps, std::int64_t stable_steps,
                             std::int64_t decay_steps, double initial, double end) {
  optim::check_count("warmup_stable_decay", "warmup_steps", warmup_steps, 0);
  optim::check_count("warmup_stable_decay", "stable_steps", stable_steps, 0);
  optim::check_count("warmup_stable_decay", "decay_steps", decay_steps);
  optim::check_finite("warmup_stable_decay", "peak", peak);
  check_ends("warmup_stable_decay", initial, end);
  const std::int64_t last = sum_of("warmup_stable_decay", {warmup_steps, stable_steps, decay_steps});
  const auto line = [](double a, double b, const Array& share) { return a + (b - a) * share; };
  return between({0, warmup_steps, warmup_steps + stable_steps, last}, {initial, peak, peak, end}, line);
}

Schedule linear_onecycle(std::int64_t steps, double peak, OnecycleOptions options) {
  check_onecycle_arguments("linear_onecycle", steps, peak, options);
  if (!(options.rise > 0 && options.rise < options.fall && options.fall < 1)) {
    throw ValueError(fmt::format("[linear_onecycle] rise is {} and fall {}; they must be 0 < rise < fall < 1",
                                 options.rise, options.fall));
  }
  const double start = peak / options.start_divisor;
  const auto line = [](double a, double b, const Array& share) { return a + (b - a) * share; };
  return between({0, share_of(steps, options.rise), share_of(steps, options.fall), steps},
                 {start, peak, start, start / options.final_divisor}, line);
}

Schedule cosine_onecycle(std::int64_t steps, double peak, OnecycleOptions options) {
  check_onecycle_arguments("cosine_onecycle", steps, peak, options);
  if (!(options.rise > 0 && options.rise < 1)) {
    throw ValueError(fmt::format("[cosine_onecycle] rise is {}; it must be 0 < rise < 1", options.rise));
  }
  const double start = peak / options.start_divisor;
  const auto wave = [](double a, double b, const Array& share) {
    return b + (a - b) / 2.0 * (cos(std::numbers::pi * share) + 1.0);
  };
  return between({0, share_of(steps, options.rise), steps}, {start, peak, start / options.final_divisor}, wave);
}

Schedule join(std::vector<Schedule> schedules, std::vector<std::int64_t> boundaries) {
  if (schedules.size() != boundaries.size() + 1) {
    throw ValueError(fmt::format("[join] {} boundaries and {} schedules; give one schedule more than boundaries",
                                 boundaries.size(), schedules.size()));
  }
  check_boundaries("join", boundaries);
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    if (!schedules[i]) throw ValueError(fmt::format("[join] schedule {} is empty; give it a function of the step", i));
  }
  return [schedules = std::move(schedules), boundaries = std::move(boundaries)](const Array& step) {
    Array value = schedules[0](step);
    for (std::size_t i = 0; i < boundaries.size(); ++i) {
      value = where(is_before(step, boundaries[i]), value, schedules[i + 1](step - countable(boundaries[i])));
    }
    return value;
  };
}

}  // namespace lockstep::schedules
