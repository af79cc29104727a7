#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/reusable_memory.h>

#include "engine/core/environment.h"

namespace lockstep::backend {
namespace {

constexpr std::size_t alignment = buffer_alignment;

// Sanitizers are to see where each block ends.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool system_aligns_by_default = true;
#else
constexpr bool system_aligns_by_default = false;
#endif

bool system_aligns() {
  static const bool chosen = environment_flag("LOCKSTEP_SYSTEM_ALIGNMENT", system_aligns_by_default);
  return chosen;
}

/// Null where there is no memory. What `malloc` gave stands before the block: there is room, for it is a multiple of 16.
void* cut_block(std::size_t bytes) noexcept {
  static_assert(alignof(std::max_align_t) == 16 && sizeof(void*) <= 16);
  if (bytes > std::numeric_limits<std::size_t>::max() - alignment) return nullptr;
  void* const whole = std::malloc(bytes + alignment);
  if (whole == nullptr) return nullptr;
  auto* const block =
      static_cast<std::byte*>(whole) + (alignment - reinterpret_cast<std::uintptr_t>(whole) % alignment);
  ::new (static_cast<void*>(block - sizeof(void*))) void*(whole);
  return block;
}

void* try_allocate(std::size_t bytes) {
  if (system_aligns()) return ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
  return cut_block(bytes);
}

}  // namespace

void* allocate_aligned(std::size_t bytes) {
  if (void* block = try_allocate(bytes)) return block;
  release_reusable_memory();
  if (void* block = try_allocate(bytes)) return block;
  throw std::bad_alloc();
}

void free_aligned(void* block) noexcept {
  if (block == nullptr) return;
  if (system_aligns()) return ::operator delete (block, std::align_val_t{alignment});
  std::free(*reinterpret_cast<void**>(static_cast<std::byte*>(block) - sizeof(void*)));
}

}  // namespace lockstep::backend
