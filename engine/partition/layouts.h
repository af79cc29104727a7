#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/ir/layout.h"
#include "engine/ir/primitive.h"

// Layouts of values over a mesh.
namespace lockstep::partition {

using ir::CutAxes;
using ir::ValueLayout;

class AnalyzedBodies;

/// What a program is partitioned over, and how its sums are taken.
struct Setting {
  ir::AxisSizes mesh;
  /// K: what an op adds up is K partial sums over equal blocks, joined by the tree of sums over replicas, however many of
  /// the blocks a shard has; and sums are reduced where they come to be. Then their bits do not depend on layouts. 0: not.
  std::int64_t contraction_blocks = 0;
  /// What is known of sub-functions already.
  std::shared_ptr<AnalyzedBodies> bodies = {};
};

/// Whole on every shard.
ValueLayout whole(int rank);
/// "[data, -, model+expert]", with " summed over data" behind it.
std::string to_string(const ValueLayout& layout);
/// Into how many blocks the axes cut.
std::int64_t blocks(const CutAxes& axes, const ir::AxisSizes& mesh);
/// A shard's block.
Shape block_shape(const Shape& shape, const ValueLayout& layout, const ir::AxisSizes& mesh);
/// Its type in the body of a map: it varies along what cuts it and what it is a sum over.
ArrayType block_type(const ArrayType& type, const ValueLayout& layout, const ir::AxisSizes& mesh);
/// The first axes that both have.
CutAxes common_prefix(const CutAxes& a, const CutAxes& b);
/// Entries as a map's attributes have them, and back. Axes of one replica are left out.
std::vector<std::string> entries_of(const ValueLayout& layout);
ValueLayout layout_of(const std::vector<std::string>& entries, const ir::AxisSizes& mesh);

}  // namespace lockstep::partition
