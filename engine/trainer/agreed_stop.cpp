// Steps at which processes ask each other, paced by the slowest of them.
#include "engine/trainer/agreed_stop.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <lockstep/processes.h>

namespace lockstep::trainer {
namespace {

/// What a process says: whether it is to stop, and how long its steps have taken.
struct Answer {
  double stops = 0;
  double seconds_per_step = 0;
};

std::vector<Answer> answers_of_all(const Answer& own) {
  std::vector<Answer> all(static_cast<std::size_t>(world()->size()));
  world()->all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace

bool AgreedStop::stops_after(std::int64_t step) {
  if (wanted_ == nullptr) return false;
  if (world()->size() == 1) return wanted_();
  if (step < next_asked_) return false;
  constexpr double seconds_between = 0.2;
  constexpr double most_steps = 1000;
  const Clock::time_point now = Clock::now();
  Answer own{.stops = wanted_() ? 1.0 : 0.0};
  if (last_asked_ >= 0 && step > last_asked_) {
    own.seconds_per_step =
        std::chrono::duration<double>(now - when_asked_).count() / static_cast<double>(step - last_asked_);
  }
  double slowest = 0;
  bool stops = false;
  for (const Answer& answer : answers_of_all(own)) {
    stops = stops || answer.stops != 0;
    slowest = std::max(slowest, answer.seconds_per_step);
  }
  const double steps = slowest > 0 ? std::clamp(seconds_between / slowest, 1.0, most_steps) : 1.0;
  last_asked_ = step;
  next_asked_ = step + static_cast<std::int64_t>(steps);
  when_asked_ = now;
  return stops;
}

}  // namespace lockstep::trainer
