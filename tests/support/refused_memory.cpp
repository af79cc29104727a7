// `new` under sanitizers: it throws std::bad_alloc where there is no memory, as it does without them. Their own ends the
// process. Other definitions of a test program take its place.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

void* refused_or_new(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0) return nullptr;
  return memory;
}

void* thrown_or_new(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  if (void* const memory = refused_or_new(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

std::size_t number(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

#define REPLACEABLE __attribute__((weak))

REPLACEABLE void* operator new(std::size_t n) { return thrown_or_new(n); }
REPLACEABLE void* operator new[](std::size_t n) { return thrown_or_new(n); }
REPLACEABLE void* operator new(std::size_t n, std::align_val_t a) { return thrown_or_new(n, number(a)); }
REPLACEABLE void* operator new[](std::size_t n, std::align_val_t a) { return thrown_or_new(n, number(a)); }
REPLACEABLE void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return refused_or_new(n); }
REPLACEABLE void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return refused_or_new(n); }
REPLACEABLE void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return refused_or_new(n, number(a));
}
REPLACEABLE void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return refused_or_new(n, number(a));
}
REPLACEABLE void operator delete(void* p) noexcept { std::free(p); }
REPLACEABLE void operator delete[](void* p) noexcept { std::free(p); }
REPLACEABLE void operator delete(void* p, std::size_t) noexcept { std::free(p); }
REPLACEABLE void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
REPLACEABLE void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
REPLACEABLE void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
REPLACEABLE void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
REPLACEABLE void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
REPLACEABLE void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
REPLACEABLE void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
REPLACEABLE void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
REPLACEABLE void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }

#endif
