#include "engine/optim/schedules/boundaries.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/optim/arguments.h"

namespace lockstep::schedules {
namespace {

constexpr std::int64_t largest_step = std::numeric_limits<std::int32_t>::max();

}  // namespace

void check_no_nan(std::string_view schedule, std::string_view argument, double value) {
  if (!std::isnan(value)) return;
  throw ValueError(fmt::format("[{}] {} is nan; give a number", schedule, argument));
}

void check_boundaries(std::string_view schedule, const std::vector<std::int64_t>& boundaries) {
  if (!boundaries.empty() && boundaries.front() < 0) {
    throw ValueError(fmt::format("[{}] boundary {} is before the first step; steps count from 0, and so do boundaries",
                                 schedule, boundaries.front()));
  }
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] > boundaries[i - 1]) continue;
    throw ValueError(
        fmt::format("[{}] boundary {} follows {}; boundaries must rise", schedule, boundaries[i], boundaries[i - 1]));
  }
}

void check_cycle(std::string_view schedule, const CosineCycle& cycle, const std::string& of, std::string_view counted) {
  for (const auto& [name, value] : {std::pair{"initial", cycle.initial}, {"peak", cycle.peak}, {"end", cycle.end}}) {
    optim::check_finite(schedule, name + of, value);
  }
  if (cycle.warmup_steps >= 0 && cycle.decay_steps > cycle.warmup_steps) return;
  throw ValueError(
      fmt::format("[{}] warmup_steps{} is {}, decay_steps {}; decay_steps {} and must be above warmup_steps >= 0",
                  schedule, of, cycle.warmup_steps, cycle.decay_steps, counted));
}

std::int64_t countable(std::int64_t boundary) { return std::min(boundary, largest_step); }

Array is_at_most(const Array& step, std::int64_t boundary) { return step <= countable(boundary); }

Array is_before(const Array& step, std::int64_t boundary) {
  return boundary > largest_step ? step <= largest_step : step < boundary;
}

}  // namespace lockstep::schedules
