#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/communicator.h>
#include <lockstep/processes.h>

#include "engine/processes/control_line.h"
#include "engine/processes/exchange.h"
#include "engine/processes/flight_recorder.h"

namespace lockstep {

/// What `Processes` is made of: one collective at a time over a communicator, watched.
struct Processes::Impl {
  Impl(std::shared_ptr<backend::Communicator> raw, ProcessOptions given);

  /// Begins the next collective and waits until it is over, `seconds` longer than the time limit if need be.
  void run(CollectiveName name, std::size_t bytes, int root, std::span<const processes::Part> parts,
           double seconds = 0);
  void expect_room(std::size_t given, std::size_t expected, std::string_view op) const;
  /// This process has failed: the others are told. Where all of them say the same, the next collective goes on.
  void fail(std::string_view text);
  /// The processes have failed, as all of them know or are told here. Writes the flight recorder, throws.
  [[noreturn]] void give_up(const std::string& text, bool tell);
  /// What is done when the program ends.
  void leave();
  std::atomic<bool> has_ended = false;

  std::shared_ptr<backend::Communicator> communicator;
  ProcessOptions options;
  int rank;
  int size;
  processes::FlightRecorder recorder;
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::uint64_t> done{0};  ///< Collectives that are over.
  std::uint64_t calls = 0;
  std::uint64_t program = 0;  ///< Of the call that runs, where `in_call`.
  bool in_call = false;

  mutable std::recursive_mutex mutex;  ///< Of all but what follows.
  mutable std::mutex failure_mutex;
  std::string failure;                  ///< Empty: none.
  std::atomic<bool> has_failed{false};  ///< For good.
  /// Errors of this process that the others may have had as well: they are compared before the next collective.
  std::vector<processes::Failure> failures;
  std::atomic<bool> has_failures{false};

 private:
  void expect_like_failures(std::string_view op);
  processes::ControlLine::Likeness compare_failures(double seconds, int& peer);

  void wait(processes::Exchange& exchange, const processes::CollectiveHeader& header, double seconds);
  void check_peers(const processes::Exchange& exchange, const processes::CollectiveHeader& header);
  [[noreturn]] void refuse(const processes::Exchange& exchange, const processes::CollectiveHeader& own);
  [[noreturn]] void time_out(const processes::Exchange& exchange, const processes::CollectiveHeader& header,
                             double seconds);
  bool note_failure(std::string_view text);
  void tell_failures();

  std::vector<processes::FirstMessages> first_;
  std::unique_ptr<processes::ControlLine> control_;
  std::size_t told_ = 0;  ///< Of `failures`.
  /// Of collectives that failed: what they have under way may still be read or written, so it is not given up.
  std::vector<std::unique_ptr<processes::Exchange>> failed_exchanges_;
};

}  // namespace lockstep
