#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/processes/collective.h"

namespace lockstep::processes {

/// The last events of a process: collectives and calls of compiled functions, with their times. Written when the processes
/// fail. One thread at a time.
class FlightRecorder {
 public:
  static constexpr std::size_t capacity = 1024;

  /// A collective has begun; the one with that number has ended.
  void begin(const CollectiveHeader& collective);
  void end(std::uint64_t number);
  void begin_call(std::uint64_t call, std::uint64_t program);
  void end_call();

  /// Oldest first, one a line.
  std::string text() const;
  /// Writes reason and events to lockstep-flight-<rank>-<process id>-<six letters and digits>.txt, a name that nobody can
  /// tell before, in the first of the folders that takes it, and returns what to say of it.
  std::string write(const std::vector<std::filesystem::path>& folders, int rank, std::string_view reason) const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint8_t { collective, call_begins, call_ends };
  struct Event {
    Kind kind = Kind::collective;
    CollectiveHeader collective;
    Clock::time_point begin;
    Clock::time_point end;  ///< The clock's start: it has not.
  };

  Event& next();
  std::string line(const Event& event) const;

  std::vector<Event> events_;  ///< A ring.
  std::size_t count_ = 0;      ///< All so far.
  Clock::time_point start_ = Clock::now();
};

}  // namespace lockstep::processes
