#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/types.h>

#include "engine/ir/function.h"

// Layouts in a map's attributes `in` and `out`: one entry for each dimension, the names of the mesh axes that cut it, the
// outermost first, between commas; "" where it is whole.
namespace lockstep::ops::collective {

/// Stands between the axes of an entry; in no axis name of a mesh.
inline constexpr char between_axes = ',';

/// The axes of an entry, in order.
std::vector<std::string> axes_of_dimension(std::string_view entry);
std::string entry_of(const std::vector<std::string>& axes);
/// All axes that cut something, dimension by dimension.
std::vector<std::string> axes_of_layout(const std::vector<std::string>& layout);
bool is_cut(const std::vector<std::string>& layout);

/// Into how many blocks the entry's axes cut a dimension. Throws MeshError for an axis the mesh does not have and where
/// the blocks are more than a number holds, naming `op`.
std::int64_t blocks_of_dimension(std::string_view entry, const ir::AxisSizes& mesh, std::string_view op);
/// Which block is a shard's: the number whose digits are its coordinates along the axes, the outermost first.
template <class Coordinate>
std::int64_t block_of_dimension(std::string_view entry, const ir::AxisSizes& mesh, std::string_view op,
                                const Coordinate& coordinate) {
  std::int64_t block = 0;
  for (const std::string& axis : axes_of_dimension(entry)) block = block * mesh.size(axis, op) + coordinate(axis);
  return block;
}

}  // namespace lockstep::ops::collective
