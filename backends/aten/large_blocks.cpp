#include "backends/aten/large_blocks.h"

#include <cstdint>
#include <limits>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace lockstep::backends::aten {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t fewest_bytes_of_huge_pages = 2 * huge_page;
constexpr std::size_t most_kept = 4;
constexpr std::align_val_t alignment{huge_page};

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

void free(const LargeBlocks::Block& block) noexcept { ::operator delete(block.data, alignment); }

}  // namespace

void ask_for_huge_pages([[maybe_unused]] void* data, std::size_t nbytes) {
  if (nbytes < fewest_bytes_of_huge_pages) return;
#ifdef MADV_HUGEPAGE
  // From the page on which the block begins: the allocator's own words before it share the first huge page.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(data) % page;
  ::madvise(static_cast<std::byte*>(data) - before, nbytes + before, MADV_HUGEPAGE);
#endif
}

LargeBlocks::~LargeBlocks() {
  for (const Block& block : kept_) free(block);
}

LargeBlocks::Block LargeBlocks::take(std::size_t nbytes) {
  if (nbytes > std::numeric_limits<std::ptrdiff_t>::max() - huge_page) throw std::bad_alloc();
  const std::size_t wanted = (nbytes + huge_page - 1) / huge_page * huge_page;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = kept_.size(); i-- > 0;) {
      const Block block = kept_[i];
      if (block.nbytes < wanted || block.nbytes - wanted > wanted / 8) continue;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      return block;
    }
  }
  const Block block{::operator new(wanted, alignment), wanted};
  ask_for_huge_pages(block.data, block.nbytes);
  return block;
}

void LargeBlocks::give(Block block) noexcept {
  if (!keeps_blocks || !lend_to_system(block)) return free(block);
  Block oldest;
  try {
    const std::lock_guard lock(mutex_);
    kept_.push_back(block);
    if (kept_.size() > most_kept) {
      oldest = kept_.front();
      kept_.erase(kept_.begin());
    }
  } catch (...) {
    oldest = block;
  }
  if (oldest.data != nullptr) free(oldest);
}

}  // namespace lockstep::backends::aten
