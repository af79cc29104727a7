#include "tests/allocations/counted_allocations.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__GLIBC__)
#include <execinfo.h>
#include <link.h>
#endif

// This program's malloc and its relatives stand before the system's, for all libraries in the process; operator new goes
// through them.
namespace lockstep::tests {

namespace {

constinit std::atomic<bool> counting{false};
constinit std::atomic<std::int64_t> allocations{0};
/// How many more succeed before one fails; less than 0: all.
constinit std::atomic<std::int64_t> until_failure{-1};
constinit std::atomic<std::size_t> smallest_failing{0};

}  // namespace

void fail_allocation(std::int64_t nth, std::size_t at_least) {
  smallest_failing = at_least;
  until_failure = nth;
}
bool has_failed() { return until_failure < 0; }

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

/// Where oneDNN's code lies: it allocates in every `execute`.
struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

Range range_of_onednn() {
  Range range;
  const auto visit = [](dl_phdr_info* info, std::size_t /*size*/, void* result) {
    if (std::string_view(info->dlpi_name).find("libdnnl") == std::string_view::npos) return 0;
    auto& found = *static_cast<Range*>(result);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
        found = {info->dlpi_addr + segment.p_vaddr, info->dlpi_addr + segment.p_vaddr + segment.p_memsz};
      }
    }
    return 1;
  };
  dl_iterate_phdr(visit, &range);
  return range;
}

constinit Range onednn;

bool is_called_by_onednn() {
  std::array<void*, 8> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < count; ++i) {
    const auto at = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    if (at >= onednn.begin && at < onednn.end) return true;
  }
  return false;
}

void note() noexcept {
  static thread_local bool is_looking = false;  // walking the stack may allocate, too
  if (is_looking || !counting.load(std::memory_order_relaxed)) return;
  is_looking = true;
  if (!is_called_by_onednn()) allocations.fetch_add(1, std::memory_order_relaxed);
  is_looking = false;
}

/// Where oneDNN lies is asked for each time: it is loaded when its first function is called.
void find_onednn() { onednn = range_of_onednn(); }

}  // namespace

bool fails(std::size_t bytes) noexcept {
  if (until_failure.load(std::memory_order_relaxed) < 0 || bytes < smallest_failing) return false;
  if (until_failure.fetch_sub(1, std::memory_order_relaxed) != 0) return false;
  errno = ENOMEM;
  return true;
}

bool counts_allocations() {
  is_called_by_onednn();  // its first call loads what walks the stack
  return true;
}

}  // namespace lockstep::tests

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  lockstep::tests::note();
  if (lockstep::tests::fails(bytes)) return nullptr;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  lockstep::tests::note();
  if (lockstep::tests::fails(count * bytes)) return nullptr;
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) noexcept {
  lockstep::tests::note();
  if (lockstep::tests::fails(bytes)) return nullptr;
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  lockstep::tests::note();
  if (lockstep::tests::fails(bytes)) return nullptr;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#else

namespace {
void find_onednn() {}
}  // namespace

bool counts_allocations() { return false; }

}  // namespace lockstep::tests

#endif

std::int64_t lockstep::tests::allocations_during(const std::function<void()>& work) {
  find_onednn();
  allocations = 0;
  counting = true;
  work();
  counting = false;
  return allocations;
}
