#include "engine/eval/blocks.h"

#include <cstring>

#include "engine/core/lists.h"

namespace lockstep::eval {

namespace {

// Calls copy(byte offset in the whole, byte offset in the part, bytes) for each row of the block.
template <class Copy>
void for_each_row(const Block& block, const Copy& copy) {
  if (block.shape.size() == 0) return;
  const int rank = block.shape.rank();
  const std::size_t row = rank == 0 ? 1 : static_cast<std::size_t>(block.shape[rank - 1]);
  const std::size_t rows = static_cast<std::size_t>(block.shape.size()) / row;
  const std::vector<std::int64_t> strides = row_major_strides(block.whole);
  for (std::size_t i = 0; i < rows; ++i) {
    std::int64_t position = rank == 0 ? 0 : block.offset[rank - 1];
    auto rest = static_cast<std::int64_t>(i);
    for (int d = rank - 2; d >= 0; --d) {
      position += (block.offset[d] + rest % block.shape[d]) * nth(strides, d);
      rest /= block.shape[d];
    }
    copy(static_cast<std::size_t>(position) * block.element_size, i * row * block.element_size,
         row * block.element_size);
  }
}

}  // namespace

std::optional<std::size_t> begin_of_unbroken(const Block& block) {
  const int rank = block.shape.rank();
  int inner = rank;  // from here on the block has all of the whole
  while (inner > 0 && block.shape[inner - 1] == block.whole[inner - 1]) --inner;
  for (int d = 0; d < inner - 1; ++d) {
    if (block.shape[d] != 1) return std::nullopt;
  }
  std::int64_t position = 0;
  const std::vector<std::int64_t> strides = row_major_strides(block.whole);
  for (int d = 0; d < rank; ++d) position += block.offset[d] * nth(strides, d);
  return static_cast<std::size_t>(position) * block.element_size;
}

void cut_block(const Block& block, const void* whole, void* part) {
  const auto* from = static_cast<const std::byte*>(whole);
  auto* to = static_cast<std::byte*>(part);
  for_each_row(block, [&](std::size_t in_whole, std::size_t in_part, std::size_t bytes) {
    std::memcpy(to + in_part, from + in_whole, bytes);
  });
}

void place_block(const Block& block, const void* part, void* whole) {
  const auto* from = static_cast<const std::byte*>(part);
  auto* to = static_cast<std::byte*>(whole);
  for_each_row(block, [&](std::size_t in_whole, std::size_t in_part, std::size_t bytes) {
    std::memcpy(to + in_whole, from + in_part, bytes);
  });
}

}  // namespace lockstep::eval
