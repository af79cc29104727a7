#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/processes/control_line.h"

namespace lockstep::processes {

/// How long others are waited for: they are asked whether they are alive and at work. Who is not, or does not answer, stopped
/// or dead, is given up before one who is.
class Patience {
 public:
  /// In seconds, of others in general, and of those that are at work.
  Patience(ControlLine& control, double limit, double at_work);

  struct GivenUp {
    std::vector<int> processes;
    enum class Sign : std::uint8_t { none, alive, at_work };
    Sign sign = Sign::none;
    double seconds = 0;  ///< That they were waited for.
  };
  /// Whether the wait has become so long that others are asked.
  bool is_tried() const { return Clock::now() - begin_ >= pause_; }
  /// Asks these now and then, and says which of them are waited for no longer.
  std::optional<GivenUp> given_up(std::span<const int> processes);

 private:
  using Clock = ControlLine::Clock;

  ControlLine& control_;
  double limit_, at_work_;
  Clock::duration pause_;  ///< Between two questions.
  Clock::time_point begin_ = Clock::now();
};

}  // namespace lockstep::processes
