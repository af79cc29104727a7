#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace lockstep::backends::aten {

/// Memory of large arrays. Allocators map such blocks anew each time, and the system fills each with zeros page by page,
/// which costs more than most loops over them. Freed ones are kept here for the next array of about their size. All but
/// the one freed last, and that too where it is very large, are lent to the system meanwhile: it takes them back where it
/// runs short, and the first write to each page of what it has left costs about half as much as a new one. May be used by
/// several threads.
class LargeBlocks {
 public:
  static constexpr std::size_t fewest_bytes = std::size_t{32} << 20;  ///< The C library keeps smaller ones itself.
  static constexpr std::size_t most_warm_bytes = std::size_t{256} << 20;

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
  void lend(Block block) noexcept;

  std::mutex mutex_;
  Block warm_;               ///< Freed last; none, or not lent.
  std::vector<Block> lent_;  ///< The one freed last stands last.
};

}  // namespace lockstep::backends::aten
