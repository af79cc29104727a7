#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "engine/processes/control_line.h"

namespace lockstep::processes {

/// How long others are waited for: they are asked whether they are alive. Who does not answer, stopped or dead, is given up
/// before one who does.
class Patience {
 public:
  /// In seconds, of others that do not answer and of those that do.
  Patience(ControlLine& control, double silent, double alive);

  struct GivenUp {
    std::vector<int> processes;
    bool are_alive = false;
    double seconds = 0;  ///< That they were waited for.
  };
  /// Whether the wait has become so long that others are asked.
  bool is_tried() const { return Clock::now() - begin_ >= pause_; }
  /// Asks these now and then, and says which of them are waited for no longer.
  std::optional<GivenUp> given_up(std::span<const int> processes);

 private:
  using Clock = ControlLine::Clock;

  ControlLine& control_;
  double silent_, alive_;
  Clock::duration pause_;  ///< Between two questions.
  Clock::time_point begin_ = Clock::now();
};

}  // namespace lockstep::processes
