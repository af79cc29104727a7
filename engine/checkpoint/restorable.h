// What a checkpoint can be read back from; the rest is refused before a file is written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/tree.h>

// What a checkpoint can be read back from; the rest is refused before a file is written.
namespace lockstep::checkpoint {

/// Of an array without elements: at most so many in the product of its other extents. Arrays with elements are limited by
/// their bytes.
inline constexpr std::uint64_t largest_empty = std::uint64_t{1} << 48;
/// Whether the extents of an array without elements are within that limit.
LOCKSTEP_API bool is_empty_shape_readable(const Shape& shape);

/// The paths of a tree's leaves. Throws CheckpointError naming a leaf that holds nothing, a path that holds NUL or is no
/// UTF-8 text, and a shape that readers refuse.
std::vector<std::string> checked_paths(const Tree& tree);

}  // namespace lockstep::checkpoint
