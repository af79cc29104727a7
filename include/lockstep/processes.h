#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
#include <lockstep/tree.h>
#include <lockstep/types.h>

namespace lockstep {

namespace backend {
class Communicator;
}

/// What all processes must have alike, by name, in the order in which differences are looked for. A value of several
/// lines is a text of which the first line that differs is shown.
using ProcessEntries = std::vector<std::pair<std::string, std::string>>;

extern template class LOCKSTEP_API detail::OutOfLine<ProcessEntries>;

/// How `Processes` wait and what they compare.
struct ProcessOptions {
  /// Seconds that a process waits in a collective for another one; then it throws. One that is alive and at work (`AtWork`)
  /// is waited for longer: `Processes::patience()`.
  double time_limit = 30;
  /// Folder of the text file that a failure leaves: the last collectives and calls. Empty: the system's temporary one.
  std::filesystem::path flight_folder = {};
  /// What bits depend on beside program and arguments: versions, processor, environment.
  detail::OutOfLine<ProcessEntries> description = {};
};

/// What a collective says of itself, so that one that meets another is an error.
struct CollectiveName {
  std::string_view op;  ///< At most 31 bytes of it.
  DType dtype = DType::uint8;
};

/// The processes of a run, as one of them sees them: collectives that are numbered and described and have a time limit,
/// comparisons, and the news that one has failed or ended. Every process makes the same calls in the same order. Another
/// kind, size or order, another compiled function, a process that fails, ends or does not come: each is a
/// CommunicatorError on all of them, which says who, in which collective, and where the flight recorder's file is. After
/// one nothing can be communicated any more. Where all fail alike, between the same two collectives with the same text,
/// and catch it, they go on. Waiting sleeps. Works on any Communicator; calls may come from any thread.
class LOCKSTEP_API Processes {
 public:
  /// Throws ValueError for a time limit that is not positive.
  explicit Processes(std::shared_ptr<backend::Communicator> communicator, ProcessOptions options = {});
  /// Tells the others that this process has ended. Where all end well it waits for them; after a failure it does not wait.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  std::string_view name() const;
  int rank() const;
  int size() const;
  double time_limit() const;
  void set_time_limit(double seconds);
  /// Seconds that another process is waited for that is alive and at work: ten times the time limit.
  double patience() const;
  void set_flight_folder(std::filesystem::path folder);

  /// Tells the others that this process has ended, as the destructor does otherwise; nothing can be communicated then.
  void end() noexcept;

  void barrier();
  /// Block r of `received` is what process r sent; every process sends `sent.size()` bytes.
  void all_gather(std::span<const std::byte> sent, std::span<std::byte> received, CollectiveName name = {"all_gather"});
  /// Block r of `sent` goes to process r; block r of `received` came from process r. Blocks are of equal size.
  void all_to_all(std::span<const std::byte> sent, std::span<std::byte> received, CollectiveName name = {"all_to_all"});
  void broadcast(std::span<std::byte> bytes, int root, CollectiveName name = {"broadcast"});
  /// A barrier that says what has been done before it: `bytes` have been written into the windows of every process.
  void meet(CollectiveName name, std::size_t bytes);

  /// Collectives that go on while this process does something else: begun here, in the same order by all, over behind
  /// `finish` of the number that is returned. Until then what is sent stays as it is, and what is received is not there.
  /// `meet`, `all_gather` and `all_to_all`, begun.
  std::uint64_t start_meet(CollectiveName name, std::size_t bytes);
  std::uint64_t start_all_gather(std::span<const std::byte> sent, std::span<std::byte> received,
                                 CollectiveName name = {"all_gather"});
  std::uint64_t start_all_to_all(std::span<const std::byte> sent, std::span<std::byte> received,
                                 CollectiveName name = {"all_to_all"});
  /// Waits until the collective with that number, and all before it, are over. The time limit counts from here on.
  void finish(std::uint64_t number);
  /// Moves on what is under way, never waits: some networks move bytes only while they are asked.
  void advance();

  /// Whether the processes read each other's windows (Communicator::window): they run on one host.
  bool has_windows() const;
  /// Of process `process`: its own are written before a `meet`, those of others are read behind it.
  std::span<std::byte> window(int process, int number, std::size_t bytes) const;
  /// The text of every process.
  std::vector<std::string> all_gather_text(std::string_view text, CollectiveName name = {"all_gather_text"});

  /// Throws on all processes unless all have the same entries: names the first one that differs, its values, and whose
  /// they are. `what` has them: "lockstep train".
  void expect_same(std::string_view what, const ProcessEntries& entries);
  /// The same of entries that are made only where their hashes differ.
  void expect_same(std::string_view what, std::uint64_t hash, const std::function<ProcessEntries()>& entries);
  /// The same of one hash, which goes with the next collective and costs nothing: that one throws where it differs.
  void expect_same_later(std::string what, std::uint64_t hash);
  /// Runs `work` in process 0 while the others wait, `seconds` longer than `patience()` if need be. What it throws is
  /// thrown there, and a CheckpointError with its text elsewhere. `what` is the same in all: "checkpoint::save of runs/1".
  void run_on_first(std::string_view what, const std::function<void()>& work, double seconds = 0);

  /// Tells the others that this process has failed: they throw "process 1 failed: <text>" where they wait, now or later,
  /// but for those that fail with the same text after as many collectives. The next collective of this process asks
  /// whether all did: then it goes on, else it throws.
  void fail(std::string_view text) noexcept;
  /// Whether nothing can be communicated, or can only where the others have failed likewise.
  bool has_failed() const;
  /// So far, in this process: that have begun; and of those, that were waited for as they began.
  std::uint64_t collectives() const;
  std::uint64_t meetings() const;

  /// For compiled functions: the collectives up to `end_call` are those of a call of the program with that hash, whose
  /// arguments have the hash `data`; 0: none to compare. `names` says which ones, for an error before `end_call`.
  void begin_call(std::uint64_t program, std::uint64_t data = 0, std::function<std::string()> names = {});
  void end_call();
  /// That have begun so far, in this process.
  std::uint64_t calls() const;
  const ProcessEntries& description() const;

 private:
  friend class AtWork;
  struct Impl;
  detail::Owned<Impl> impl_;
};

/// While it lives, this process does what takes as long as it takes: it writes a file to a slow disk, compiles, reads. Others
/// that wait for it in a collective then do so for `Processes::patience()`, unless it gives no sign of life: stopped or dead
/// it is given up after the time limit as anywhere else. The engine says so where it writes, reads or compiles itself; a
/// callback that plots for a minute may say it, too.
class LOCKSTEP_API AtWork {
 public:
  /// `processes` outlive this.
  explicit AtWork(Processes& processes);
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  Processes& processes_;
};

/// The processes this one was launched with, connected at the first call: those of mpirun, or one alone. The time limit
/// is LOCKSTEP_COLLECTIVE_TIMEOUT where that is set (seconds), the flight recorder's folder LOCKSTEP_FLIGHT_RECORDER.
LOCKSTEP_API const std::shared_ptr<Processes>& world();

/// Tells the other processes that this one has failed, for a `main` that has caught an error: they throw a
/// CommunicatorError with its text instead of waiting. Nothing happens where there is one process.
LOCKSTEP_API void abort_processes(std::string_view text) noexcept;

/// Runs `work`; what it throws reaches the other processes and is thrown again. `fit` does so, and a program's own loop of
/// steps should.
template <class F>
auto tell_processes(F&& work) -> decltype(work()) {
  try {
    return std::forward<F>(work)();
  } catch (const std::exception& error) {
    abort_processes(error.what());
    throw;
  } catch (...) {
    abort_processes("an error of no known kind");
    throw;
  }
}

/// Compares what every process should hold alike, leaf by leaf. Throws a CommunicatorError on all that names `what`, the
/// leaf's path, and the processes that differ. A hash a leaf is exchanged, no values; of cut leaves, how they lie.
LOCKSTEP_API void check_replicas(std::string_view what, const Tree& tree);

/// What bits depend on beside the program and its arguments: versions, processor model, cache sizes, environment
/// variables that change kernels' results. By name.
LOCKSTEP_API std::map<std::string, std::string> machine_description();

}  // namespace lockstep
