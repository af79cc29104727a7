#include <algorithm>
#include <array>
#include <bit>
#include <new>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/block_pool.h>

#include "engine/core/memory/own_blocks.h"

namespace lockstep {

namespace {

constexpr std::size_t smallest = 64;
constexpr std::size_t largest = std::size_t{64} << 10;
constexpr std::size_t kept_bytes = std::size_t{1} << 20;  // of blocks of one size, for one thread
constexpr std::size_t sizes = std::bit_width(largest / smallest);

// Sanitizers are to see each block's life.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool keeps_blocks = false;
#else
constexpr bool keeps_blocks = true;
#endif

struct FreeBlock {
  FreeBlock* next;
};

/// Free blocks of one size.
struct Shelf {
  FreeBlock* first = nullptr;
  std::size_t count = 0;
};

/// Without constructor and destructor, so that objects with static lifetime may give blocks back behind the thread's end.
struct Shelves {
  std::array<Shelf, sizes> shelves;
  bool open;
  bool closed;
};
thread_local constinit Shelves own{};

/// Empties the thread's shelves when it ends.
struct Closing {
  Closing() { own.open = true; }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  ~Closing() {
    own.closed = true;
    free_own_blocks();
  }
};

void open_shelves() { static thread_local const Closing closing; }

std::size_t shelf_of(std::size_t bytes) { return std::bit_width((std::max(bytes, smallest) - 1) / smallest); }

}  // namespace

void free_own_blocks() noexcept {
  for (Shelf& shelf : own.shelves) {
    while (shelf.first != nullptr) {
      FreeBlock* block = shelf.first;
      shelf.first = block->next;
      backend::free_aligned(block);
    }
    shelf.count = 0;
  }
}

void* take_block(std::size_t bytes) {
  const std::size_t number = shelf_of(bytes);
  if (number >= sizes) return backend::allocate_aligned(bytes);
  Shelf& shelf = own.shelves[number];
  if (shelf.first == nullptr) return backend::allocate_aligned(smallest << number);
  FreeBlock* block = shelf.first;
  shelf.first = block->next;
  --shelf.count;
  return block;
}

void give_block(void* block, std::size_t bytes) noexcept {
  const std::size_t number = shelf_of(bytes);
  if (keeps_blocks && number < sizes && !own.closed) {
    if (!own.open) open_shelves();
    Shelf& shelf = own.shelves[number];
    if (shelf.count < kept_bytes / (smallest << number)) {
      shelf.first = new (block) FreeBlock{shelf.first};
      ++shelf.count;
      return;
    }
  }
  backend::free_aligned(block);
}

}  // namespace lockstep
