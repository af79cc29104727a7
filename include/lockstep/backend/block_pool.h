#pragma once

#include <cstddef>

#include <lockstep/export.h>

namespace lockstep {

/// Memory for small objects that come and go with every call, aligned to 64 bytes: each thread keeps the blocks it frees,
/// up to a limit, and takes them again, so that a steady state asks the system for none. Larger ones are not kept.
LOCKSTEP_API void* take_block(std::size_t bytes);
/// Gives back what `take_block` returned for as many bytes, on any thread.
LOCKSTEP_API void give_block(void* block, std::size_t bytes) noexcept;

/// An allocator over these blocks.
template <class T>
class BlockAllocator {
 public:
  using value_type = T;

  BlockAllocator() noexcept = default;
  template <class U>
  BlockAllocator(const BlockAllocator<U>&) noexcept {}  // NOLINT: implicit, as allocators are

  T* allocate(std::size_t count) { return static_cast<T*>(take_block(count * sizeof(T))); }
  void deallocate(T* block, std::size_t count) noexcept { give_block(block, count * sizeof(T)); }

  friend bool operator==(const BlockAllocator&, const BlockAllocator&) noexcept { return true; }
};

}  // namespace lockstep
