#include "backends/cpu/large_blocks.h"

#include <limits>
#include <new>

#ifdef __linux__
#include <sys/mman.h>

#include <lockstep/backend/round_up.h>
#endif

namespace lockstep::backend::cpu {

namespace {

constexpr std::size_t step = std::size_t{2} << 20;  // of sizes, so that arrays of about one size share
constexpr std::align_val_t alignment{step};         // of the large pages of most processors

// Sanitizers are to see each block's life; elsewhere than on Linux a kept block would stay with the process.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(MADV_FREE)
constexpr bool keeps_blocks = false;
#else
constexpr bool keeps_blocks = true;
#endif

#ifdef MADV_FREE
bool lend_to_system(const LargeBlocks::Block& block) noexcept {
  return ::madvise(block.data, block.nbytes, MADV_FREE) == 0;
}
#else
bool lend_to_system(const LargeBlocks::Block& /*block*/) noexcept { return false; }
#endif

// One large page is one fault and one entry of the processor's tables, where there were hundreds. A wish, no more.
void ask_for_large_pages([[maybe_unused]] const LargeBlocks::Block& block) noexcept {
#ifdef MADV_HUGEPAGE
  static_cast<void>(::madvise(block.data, block.nbytes, MADV_HUGEPAGE));
#endif
}

void release_block(const LargeBlocks::Block& block) noexcept { ::operator delete(block.data, alignment); }

bool fits(const LargeBlocks::Block& block, std::size_t wanted) noexcept {
  return block.nbytes >= wanted && block.nbytes - wanted <= wanted / 8;
}

}  // namespace

LargeBlocks::LargeBlocks() { kept_.reserve(most_kept + 1); }

LargeBlocks::~LargeBlocks() {
  forget();
  release();
}

void LargeBlocks::release() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Kept& kept : kept_) release_block(kept.block);
  kept_.clear();
}

LargeBlocks::Block LargeBlocks::take(std::size_t nbytes) {
  if (nbytes > std::numeric_limits<std::ptrdiff_t>::max() - step) throw std::bad_alloc();
  const std::size_t wanted = round_up(nbytes, step);
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = kept_.size(); i-- > 0;) {
      const Block block = kept_[i].block;
      if (!fits(block, wanted)) continue;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      return block;
    }
  }
  const Block block{::operator new(wanted, alignment), wanted};
  ask_for_large_pages(block);
  return block;
}

void LargeBlocks::give(Block block) noexcept {
  if (!keeps_blocks) return release_block(block);
  Block oldest;
  {
    const std::lock_guard lock(mutex_);
    kept_.push_back({block});
    if (kept_.size() > most_kept) {
      oldest = kept_.front().block;
      kept_.erase(kept_.begin());
    }
    lend_all_but_last();
  }
  release_block(oldest);
}

void LargeBlocks::lend_all_but_last() {
  std::size_t warm = 0;
  for (std::size_t i = kept_.size(); i-- > 0;) {
    Kept& kept = kept_[i];
    warm += kept.block.nbytes;
    if (warm > most_warm_bytes && !kept.lent) kept.lent = lend_to_system(kept.block);
  }
}

}  // namespace lockstep::backend::cpu
