#include <mutex>

#include <lockstep/backend/reusable_memory.h>

#include "engine/core/memory/own_blocks.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace lockstep::backend {
namespace {

// Objects with static lifetime are known and forgotten, in any order: these have neither constructor nor destructor.
constinit std::mutex mutex;
constinit ReusableMemory* first = nullptr;

}  // namespace

ReusableMemory::ReusableMemory() noexcept {
  const std::lock_guard lock(mutex);
  behind_ = first;
  if (first != nullptr) first->before_ = this;
  first = this;
}

ReusableMemory::~ReusableMemory() { forget(); }

void ReusableMemory::forget() noexcept {
  const std::lock_guard lock(mutex);
  if (!is_known_) return;
  is_known_ = false;
  (before_ == nullptr ? first : before_->behind_) = behind_;
  if (behind_ != nullptr) behind_->before_ = before_;
}

void release_reusable_memory() noexcept {
  free_own_blocks();
  {
    const std::lock_guard lock(mutex);
    // What is released first may give its parts back to what came before: so twice.
    for (int round = 0; round < 2; ++round) {
      for (ReusableMemory* memory = first; memory != nullptr; memory = memory->behind_) memory->release();
    }
  }
#ifdef __GLIBC__
  static_cast<void>(::malloc_trim(0));
#endif
}

}  // namespace lockstep::backend
