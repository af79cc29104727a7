#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/types.h>

#include "engine/ir/function.h"

namespace lockstep::ops::collective {

/// Of an array that a layout cuts over a mesh, what some shards that follow each other have: along each dimension the blocks
/// that one of them has, in ascending order. Put together so they are one array, this process's part of the whole; in one
/// process it is the whole.
class LocalPart {
 public:
  LocalPart(const std::vector<std::string>& layout, const ir::AxisSizes& mesh, std::int64_t first_shard,
            std::int64_t shards);

  /// Of all of it, given the shape of one block.
  Shape shape(const Shape& block) const;
  /// Where a shard's block stands, in blocks along dimension `dim` of the part.
  std::int64_t place(std::int64_t shard, int dim) const;
  /// The numbers of a shard's block by dimension, in the whole array.
  std::vector<std::int64_t> block_of(std::int64_t shard) const;
  /// Those of its shards of which no earlier one has the same block.
  std::vector<std::int64_t> distinct_shards() const;

 private:
  std::vector<std::string> layout_;
  ir::AxisSizes mesh_;
  std::int64_t first_shard_;
  std::int64_t shards_;
  std::vector<std::vector<std::int64_t>> blocks_;  // by dimension
};

}  // namespace lockstep::ops::collective
