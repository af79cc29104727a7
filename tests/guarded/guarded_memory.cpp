// Memory for tests that ends where a page begins that may not be touched: loaded before a program (LD_PRELOAD), it serves
// every aligned allocation, as which the memory of arrays, scratch and tensors is made, here and in the libraries below.
// What lies behind a block, up to the alignment, is checked when it is freed; freed blocks may not be touched either. A
// new block holds bytes that are NaN in every float, so that what reads it before it writes it computes NaN.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

extern "C" void __libc_free(void* block);
extern "C" void* __libc_realloc(void* block, std::size_t bytes);

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t room = std::size_t{1} << 42;  // Addresses only; none is given twice.
constexpr unsigned char canary = 0xC5;
constexpr unsigned char unwritten = 0xFF;

/// Begins the block's first page, or where the block does not leave it room the page before.
struct Header {
  std::size_t bytes, mapped;
  unsigned char* block;
};

// An allocator outlives whatever else a program has, and has no place but this.
std::atomic<unsigned char*> base{nullptr};
std::atomic<std::size_t> used{0};

[[noreturn]] void fail(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
  std::abort();
}

unsigned char* reserved() {
  unsigned char* at = base.load();
  if (at != nullptr) return at;
  void* made = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) fail("guarded memory: no addresses\n");
  if (base.compare_exchange_strong(at, static_cast<unsigned char*>(made))) return static_cast<unsigned char*>(made);
  munmap(made, room);
  return at;
}

bool is_guarded(const void* block) {
  const unsigned char* at = base.load();
  const auto* p = static_cast<const unsigned char*>(block);
  return at != nullptr && p >= at && p < at + room;
}

Header* header_of(const void* block) {
  const auto at = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t begin = at & ~(page - 1);
  return reinterpret_cast<Header*>(at - begin >= sizeof(Header) ? begin : begin - page);
}

/// Blocks on a larger boundary than a page's begin there, and end with the last page that they need.
void* make_block(std::size_t alignment, std::size_t bytes) {
  if (bytes > room / 4 || alignment > room / 4) return nullptr;
  const std::size_t length = bytes == 0 ? 1 : bytes;
  const std::size_t body = (length + page - 1) / page * page;
  const std::size_t slack = alignment > page ? alignment : 0;
  const std::size_t taken = page + slack + body + page;  // A page that is never opened lies between blocks.
  const std::size_t at = used.fetch_add(taken);
  if (at + taken > room) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(reserved() + at + page);
  const std::uintptr_t begin = slack == 0 ? address : (address + slack - 1) & ~(slack - 1);
  const std::uintptr_t end = begin + body;
  auto* block = reinterpret_cast<unsigned char*>(slack == 0 ? (end - length) & ~(alignment - 1) : begin);
  auto* first = reinterpret_cast<unsigned char*>(header_of(block));
  const std::size_t mapped = static_cast<std::size_t>(reinterpret_cast<unsigned char*>(end) - first);
  if (mprotect(first, mapped, PROT_READ | PROT_WRITE) != 0) return nullptr;
  std::memset(block, unwritten, bytes);
  std::memset(block + bytes, canary, static_cast<std::size_t>(reinterpret_cast<unsigned char*>(end) - block) - bytes);
  *header_of(block) = {bytes, mapped, block};
  return block;
}

void release(void* block) {
  const Header header = *header_of(block);
  if (header.block != block) fail("guarded memory: freed what was not allocated\n");
  auto* first = reinterpret_cast<unsigned char*>(header_of(block));
  for (const unsigned char* b = header.block + header.bytes; b < first + header.mapped; ++b) {
    if (*b != canary) fail("guarded memory: bytes behind a block were written\n");
  }
  // Closed, and its pages given back, by one call.
  if (mmap(first, header.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
      MAP_FAILED) {
    fail("guarded memory: a block could not be closed\n");
  }
}

}  // namespace

extern "C" {

int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) noexcept {
  *result = make_block(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  void* block = make_block(alignment, bytes);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

void* memalign(std::size_t alignment, std::size_t bytes) noexcept { return aligned_alloc(alignment, bytes); }

void free(void* block) noexcept {
  if (block == nullptr) return;
  is_guarded(block) ? release(block) : __libc_free(block);
}

void* realloc(void* block, std::size_t bytes) noexcept {
  if (block == nullptr || !is_guarded(block)) return __libc_realloc(block, bytes);
  void* moved = std::malloc(bytes);
  if (moved == nullptr) return nullptr;
  const std::size_t old = header_of(block)->bytes;
  std::memcpy(moved, block, old < bytes ? old : bytes);
  release(block);
  return moved;
}
}
