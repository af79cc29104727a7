#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace lockstep::backends::aten {

/// Memory of large arrays. Allocators map such blocks anew each time, and the system fills each with zeros page by page,
/// which costs more than most loops over them. Freed ones are kept here for the next array of about their size, but lent
/// to the system meanwhile: it takes them back where it runs short. May be used by several threads.
class LargeBlocks {
 public:
  static constexpr std::size_t fewest_bytes = std::size_t{32} << 20;  ///< The C library keeps smaller ones itself.

  struct Block {
    void* data = nullptr;
    std::size_t nbytes = 0;  ///< At least what was asked for.
  };

  LargeBlocks();
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;
  ~LargeBlocks();

  /// Throws std::bad_alloc.
  Block take(std::size_t nbytes);
  void give(Block block) noexcept;

 private:
  std::mutex mutex_;
  std::vector<Block> kept_;  ///< The one freed last stands last.
};

}  // namespace lockstep::backends::aten
