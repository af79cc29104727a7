// Whether a run is to stop after a step, which all processes decide alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace lockstep::trainer {

/// Asks each process, and stops all of them after the same step once one of them says so. One process is asked after each
/// step; several ask each other a few times a second, at steps that all of them know.
class AgreedStop {
 public:
  explicit AgreedStop(const std::function<bool()>& wanted) : wanted_(wanted) {}

  /// After each step, in all processes. Where nobody ever asks for it, nothing is done.
  bool stops_after(std::int64_t step);

 private:
  using Clock = std::chrono::steady_clock;

  const std::function<bool()>& wanted_;
  std::int64_t last_asked_ = -1;
  std::int64_t next_asked_ = -1;
  Clock::time_point when_asked_;
};

}  // namespace lockstep::trainer
