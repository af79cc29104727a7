#include "tests/allocations/counted_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

// This program's malloc and its relatives stand before the system's, for all libraries in the process; operator new goes
// through them.
namespace lockstep::tests {

namespace {

constinit std::atomic<bool> counting{false};
constinit std::atomic<std::int64_t> allocations{0};

[[maybe_unused]] void note() noexcept {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::int64_t allocations_during(const std::function<void()>& work) {
  allocations = 0;
  counting = true;
  work();
  counting = false;
  return allocations;
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

bool counts_allocations() { return true; }

}  // namespace lockstep::tests

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  lockstep::tests::note();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  lockstep::tests::note();
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) noexcept {
  lockstep::tests::note();
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  lockstep::tests::note();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#else

bool counts_allocations() { return false; }

}  // namespace lockstep::tests

#endif
