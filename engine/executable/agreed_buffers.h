// Memory in which all processes are known to hold the same.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>

namespace lockstep::executable {

/// Of a group of processes: what was compared, or what all of them made alike. A buffer that is written otherwise says so
/// itself (`Buffer::set_agreed`). Safe from any thread.
class AgreedBuffers {
 public:
  using BufferPtr = std::shared_ptr<backend::Buffer>;

  /// One for each group that lives.
  static std::shared_ptr<AgreedBuffers> of(const std::shared_ptr<Processes>& processes);

  void add(const BufferPtr& buffer);
  /// Never memory of somebody else, which may hold something else by now.
  bool contains(const BufferPtr& buffer) const;

 private:
  void remove_gone();

  mutable std::mutex mutex_;
  std::unordered_map<const backend::Buffer*, std::weak_ptr<backend::Buffer>> buffers_;
  std::size_t most_ = 1024;  ///< When those that are gone are looked for.
};

}  // namespace lockstep::executable
