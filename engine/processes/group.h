#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/backend/communicator.h>
#include <lockstep/processes.h>

#include "engine/processes/control_line.h"
#include "engine/processes/exchange.h"
#include "engine/processes/flight_recorder.h"
#include "engine/processes/patience.h"
#include "engine/processes/watch.h"

namespace lockstep {

/// What `Processes` is made of: collectives over a communicator, watched. They begin, and are over, in one order.
struct Processes::Impl {
  Impl(std::shared_ptr<backend::Communicator> raw, ProcessOptions given);

  /// Begins the next collective and waits until it is over, for others that are alive so many seconds longer if need be.
  void run(CollectiveName name, std::size_t bytes, int root, std::span<const processes::Part> parts,
           double seconds = 0);
  /// Begins the next collective: its number.
  std::uint64_t start(CollectiveName name, std::size_t bytes, int root, std::span<const processes::Part> parts);
  /// Waits until that collective and all before it are over.
  void finish(std::uint64_t last, double seconds = 0);
  /// The same of one that has just begun.
  void wait_for(std::uint64_t last, double seconds = 0);
  /// Moves on what is under way, never waits.
  void advance();
  /// Behind a call: what it has left under way, where it has thrown, is over, or nothing can be communicated any more.
  void settle() noexcept;
  void expect_room(std::size_t given, std::size_t expected, std::string_view op) const;
  /// This process has failed: the others are told. Where all of them say the same, the next collective goes on.
  void fail(std::string_view text);
  /// The processes have failed, as all of them know or are told here. Writes the flight recorder, throws.
  [[noreturn]] void give_up(const std::string& text, bool tell);
  /// Seconds that others are waited for that are alive.
  double patience() const;
  void set_time_limit(double seconds);
  /// What is done when the program ends.
  void leave();
  std::atomic<bool> has_ended = false;

  std::shared_ptr<backend::Communicator> communicator;
  ProcessOptions options;
  int rank;
  int size;
  processes::FlightRecorder recorder;
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::uint64_t> done{0};      ///< Collectives that are over: the first ones.
  std::atomic<std::uint64_t> meetings{0};  ///< Of those that were waited for as they began.
  std::uint64_t calls = 0;
  std::uint64_t program = 0;  ///< Of the call that runs, where `in_call`.
  bool in_call = false;
  /// What the headers have of it, and what it is of since the collective with that number began.
  std::uint64_t data = 0;
  std::vector<std::pair<std::uint64_t, std::string>> noted;
  std::function<std::string()> argument_names;  ///< Of the call that runs.
  std::uint64_t call_began = 0;                 ///< How many collectives had begun.
  void add_data(std::uint64_t hash);

  mutable std::recursive_mutex mutex;  ///< Of all but what follows.
  mutable std::mutex failure_mutex;
  std::string failure;                  ///< Empty: none.
  std::atomic<bool> has_failed{false};  ///< For good.
  /// Errors of this process that the others may have had as well: they are compared before the next collective.
  std::vector<processes::Failure> failures;
  std::atomic<bool> has_failures{false};
  std::atomic<int> works{0};  ///< `AtWork`s that live.
  /// Takes in news and answers the others while the program is in no collective. None where the communicator may have none.
  std::optional<processes::Watch> watch;

 private:
  void expect_like_failures(std::string_view op);
  /// How failures are, of which process, and for how long it was waited for where that is unknown.
  struct Comparison {
    processes::ControlLine::Likeness likeness;
    int peer = 0;
    double seconds = 0;
  };
  Comparison compare_failures(processes::Patience patience);
  processes::Patience patience_for(double seconds) const;
  /// Of the watch: seconds until it looks again.
  double look() noexcept;
  std::atomic<double> pause_ = 0;

  /// A collective under way, with room for its first messages.
  struct UnderWay {
    processes::CollectiveHeader header;
    std::vector<processes::FirstMessages> first;
    std::unique_ptr<processes::Exchange> exchange;
  };

  void wait(std::uint64_t last, double seconds);
  bool advance_all();
  /// Takes those that are over out of the list.
  void end_first();
  void check_peers(std::uint64_t last);
  bool will_come(const processes::Exchange& exchange) const;
  void check_peers(const processes::Exchange& exchange, const processes::CollectiveHeader& header);
  [[noreturn]] void refuse(const processes::Exchange& exchange, const processes::CollectiveHeader& own);
  std::string difference_in_data(const processes::CollectiveHeader& own) const;
  [[noreturn]] void time_out(const processes::Exchange& exchange, const processes::CollectiveHeader& header,
                             const processes::Patience::GivenUp& others);
  bool note_failure(std::string_view text);
  void tell_failures();

  std::deque<UnderWay> under_way_;                                 ///< In order.
  std::vector<std::vector<processes::FirstMessages>> idle_first_;  ///< Of those that are over.
  std::unique_ptr<processes::ControlLine> control_;
  std::size_t told_ = 0;  ///< Of `failures`.
  /// Of collectives that failed: what they have under way may still be read or written, so it is not given up.
  std::deque<UnderWay> failed_exchanges_;
};

}  // namespace lockstep
