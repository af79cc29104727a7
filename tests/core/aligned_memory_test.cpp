#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <new>

#include <doctest/doctest.h>

#include <lockstep/backend/aligned_memory.h>

#include "engine/core/environment.h"
#include "tests/support/skip.h"

namespace lockstep {

TEST_CASE("aligned blocks begin on a boundary of 64 bytes and are as long as asked for") {
  for (std::size_t bytes = 0; bytes < 5000; bytes += bytes < 200 ? 1 : 97) {
    void* block = backend::allocate_aligned(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
    std::memset(block, 0xAB, bytes);
    backend::free_aligned(block);
  }
  backend::free_aligned(nullptr);
}

// Sanitizers have an allocator of their own, which ends the program where a size is absurd.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("blocks that no memory holds are refused") {
  for (const std::size_t bytes :
       {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() - 64, std::size_t{1} << 62}) {
    CAPTURE(bytes);
    CHECK_THROWS_AS(backend::allocate_aligned(bytes), std::bad_alloc);
  }
}

TEST_CASE("a freed block serves the next one of its size, whatever lies around it") {
  if (environment_flag("LOCKSTEP_SYSTEM_ALIGNMENT", false)) return tests::skip("LOCKSTEP_SYSTEM_ALIGNMENT is set");
  for (const std::size_t bytes : {std::size_t{5000}, std::size_t{20000}, std::size_t{100000}}) {
    CAPTURE(bytes);
    void* before = backend::allocate_aligned(bytes);
    void* block = backend::allocate_aligned(bytes);
    void* behind = backend::allocate_aligned(bytes);
    backend::free_aligned(block);
    void* next = backend::allocate_aligned(bytes);
    CHECK(next == block);
    for (void* each : {before, next, behind}) backend::free_aligned(each);
  }
}
#endif

}  // namespace lockstep
