#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <lockstep/types.h>

namespace lockstep::eval {

/// A block of a row-major array: `shape` elements from `offset` on. Extents and offsets have the array's rank.
struct Block {
  Shape whole;
  Shape shape;
  Shape offset;
  std::size_t element_size;
};

/// The byte at which a block begins whose bytes follow each other in the whole array; nothing where they do not.
std::optional<std::size_t> begin_of_unbroken(const Block& block);
/// Copies the block out of the whole array.
void cut_block(const Block& block, const void* whole, void* part);
/// Copies the block into the whole array.
void place_block(const Block& block, const void* part, void* whole);

}  // namespace lockstep::eval
