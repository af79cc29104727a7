// Memory in which all processes are known to hold the same.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>

namespace lockstep::executable {

/// The buffers of one group of processes whose contents were compared, or were computed by a call of all processes. A
/// buffer that anything else writes is marked as not agreed (`Buffer::set_agreed`). Safe from any thread.
class AgreedBuffers {
 public:
  using BufferPtr = std::shared_ptr<backend::Buffer>;

  /// One for each group that lives.
  static std::shared_ptr<AgreedBuffers> of(const std::shared_ptr<Processes>& processes);
  /// Whether this process has ever been in a group: false in a program of one process, which then keeps no account.
  static bool exist();

  void add(const BufferPtr& buffer);
  /// False for memory of somebody else, which may have changed since.
  bool contains(const BufferPtr& buffer) const;

 private:
  void remove_gone();

  mutable std::mutex mutex_;
  std::unordered_map<const backend::Buffer*, std::weak_ptr<backend::Buffer>> buffers_;
  std::size_t most_ = 1024;  ///< When those that are gone are looked for.
};

}  // namespace lockstep::executable
