#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

namespace lockstep::backend {

/// Moves bytes between the processes of a run. It never adds: sums are ordered and local, so bits do not depend on it.
/// All calls are collective, in the same order on every process; failures throw CommunicatorError.
class LOCKSTEP_API Communicator {
 public:
  virtual ~Communicator();
  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void barrier() = 0;
  /// Block r of `received` is what process r sent; every process sends `sent.size()` bytes.
  virtual void all_gather(std::span<const std::byte> sent, std::span<std::byte> received) = 0;
  /// Block r of `sent` goes to process r; block r of `received` came from process r. Blocks are of equal size.
  virtual void all_to_all(std::span<const std::byte> sent, std::span<std::byte> received) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
};

/// The processes this one was launched with: MPI under a launcher, else one process alone. Connected at the first call.
LOCKSTEP_API const std::shared_ptr<Communicator>& world();

/// Names of the communicators this build has. Written by CMake.
LOCKSTEP_API const std::vector<std::string>& built_communicators();

}  // namespace lockstep::backend
