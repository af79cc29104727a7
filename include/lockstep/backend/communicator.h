#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

namespace lockstep::backend {

/// A message on its way. Its memory is the caller's and stays until it is done, or until the transfer is destroyed: one
/// that is not done is then given up.
class LOCKSTEP_API Transfer {
 public:
  virtual ~Transfer();
  /// Moves things on, never waits. True once the message has left its memory, or has arrived: from then on always.
  virtual bool test() = 0;
};

/// Streams of messages between two processes that do not wait for each other.
enum class Channel : std::uint8_t { data, control };

/// Moves bytes from one process to another. It never adds, never waits, and knows nothing of what it moves: numbers,
/// descriptions, time limits and comparisons are those of `Processes`. Called by one thread at a time; failures throw
/// CommunicatorError.
class LOCKSTEP_API Communicator {
 public:
  virtual ~Communicator();
  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Begins to send to another process. Messages of one channel between two processes arrive in the order of these calls.
  virtual std::unique_ptr<Transfer> start_send(Channel channel, int to, std::span<const std::byte> bytes) = 0;
  /// Begins to receive the next message of that process, which is at most as long as the room for it.
  virtual std::unique_ptr<Transfer> start_receive(Channel channel, int from, std::span<std::byte> room) = 0;
  /// Whether all processes see each other's windows, as those of one host may.
  virtual bool has_windows() const { return false; }
  /// The first bytes of a process's window with a number from 0 on: memory that this process alone writes, and that the
  /// others read where it lies. What a message says that was sent behind the writing, they find there. They may lie
  /// elsewhere once more bytes are asked for. Empty where there are none.
  virtual std::span<std::byte> window(int process, int number, std::size_t bytes);
  static constexpr int windows = 6;  ///< Of a process.
  /// Whether a thread that the program knows nothing of may call this, between two calls of the program.
  virtual bool may_have_a_thread() const { return true; }
  /// The processes have failed: nothing that waits for others may be done any more, the destructor included.
  virtual void abandon() = 0;
};

/// The processes this one was launched with, connected now: MPI under a launcher, else one process alone. A program asks
/// `world()` (processes.h) instead. Throws CommunicatorError naming those that have not come within so many seconds.
LOCKSTEP_API std::shared_ptr<Communicator> connect_processes(double seconds);

/// Names of the communicators this build has. Written by CMake.
LOCKSTEP_API const std::vector<std::string>& built_communicators();

}  // namespace lockstep::backend
