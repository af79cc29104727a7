#pragma once

#include <cstddef>

#include <lockstep/export.h>

namespace lockstep::backend {

/// Where every buffer begins, one of its own and one planned in the arena, in bytes: a cache line, and a register of AVX-512.
inline constexpr std::size_t buffer_alignment = 64;

/// `bytes` bytes on a 64-byte boundary. Throws std::bad_alloc, where what is kept for reuse (reusable_memory.h) was released
/// and did not suffice. Blocks are cut from those of `malloc`: a freed one serves the next of its size, which those of the
/// C library's own aligned allocation do not before glibc 2.38 (bug 14581), so that arrays of ever new sizes grew the
/// process. LOCKSTEP_SYSTEM_ALIGNMENT=1 takes those all the same, for tools that watch over each block.
LOCKSTEP_API void* allocate_aligned(std::size_t bytes);
/// Frees what `allocate_aligned` returned, or null.
LOCKSTEP_API void free_aligned(void* block) noexcept;

}  // namespace lockstep::backend
