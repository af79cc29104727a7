#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include <lockstep/backend/reusable_memory.h>

namespace lockstep::backend::cpu {

/// Memory of large arrays. Allocators return such blocks to the system, which fills each new page with zeros: that costs
/// more than most loops over them. Freed ones are kept here for the next array of about their size. The last ones stay as
/// they are, up to a number of bytes; the others are lent to the system, which takes their pages where it runs short, and
/// to whose pages the first write costs about half as much as to new ones. May be used by several threads.
class LargeBlocks final : public ReusableMemory {
 public:
  static constexpr std::size_t fewest_bytes = std::size_t{4} << 20;
  static constexpr std::size_t most_kept = 8;
  static constexpr std::size_t most_warm_bytes = std::size_t{256} << 20;  ///< Of those kept that are not lent.

  struct Block {
    void* data = nullptr;
    std::size_t nbytes = 0;  ///< At least what was asked for.
  };

  LargeBlocks();
  ~LargeBlocks() override;

  /// Throws std::bad_alloc.
  Block take(std::size_t nbytes);
  void give(Block block) noexcept;
  void release() noexcept override;

 private:
  struct Kept {
    Block block;
    bool lent = false;
  };

  void lend_all_but_last();

  std::mutex mutex_;
  std::vector<Kept> kept_;  ///< The one freed last stands last.
};

}  // namespace lockstep::backend::cpu
