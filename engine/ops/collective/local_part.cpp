#include "engine/ops/collective/local_part.h"

#include <algorithm>
#include <set>

#include "engine/ops/collective/dimension_axes.h"

namespace lockstep::ops::collective {

namespace {

std::int64_t coordinate(const ir::AxisSizes& mesh, std::int64_t shard, const std::string& axis) {
  for (auto it = mesh.axes().rbegin(); it != mesh.axes().rend(); ++it) {
    if (it->name == axis) return shard % it->size;
    shard /= it->size;
  }
  return 0;
}

}  // namespace

LocalPart::LocalPart(const std::vector<std::string>& layout, const ir::AxisSizes& mesh, std::int64_t first_shard,
                     std::int64_t shards)
    : layout_(layout), mesh_(mesh), first_shard_(first_shard), shards_(shards), blocks_(layout.size()) {
  for (std::int64_t shard = first_shard; shard < first_shard + shards; ++shard) {
    const std::vector<std::int64_t> block = block_of(shard);
    for (std::size_t d = 0; d < block.size(); ++d) {
      const auto place = std::ranges::lower_bound(blocks_[d], block[d]);
      if (place == blocks_[d].end() || *place != block[d]) blocks_[d].insert(place, block[d]);
    }
  }
}

Shape LocalPart::shape(const Shape& block) const {
  Shape shape = block;
  for (std::size_t d = 0; d < blocks_.size(); ++d) {
    const int dim = static_cast<int>(d);
    shape = shape.with(dim, block[dim] * static_cast<std::int64_t>(blocks_[d].size()));
  }
  return shape;
}

std::int64_t LocalPart::place(std::int64_t shard, int dim) const {
  const auto d = static_cast<std::size_t>(dim);
  const std::int64_t block = block_of_dimension(
      layout_[d], mesh_, "reshard", [&](const std::string& axis) { return coordinate(mesh_, shard, axis); });
  return std::ranges::lower_bound(blocks_[d], block) - blocks_[d].begin();
}

std::vector<std::int64_t> LocalPart::block_of(std::int64_t shard) const {
  std::vector<std::int64_t> block;
  for (const std::string& entry : layout_) {
    block.push_back(block_of_dimension(entry, mesh_, "reshard",
                                       [&](const std::string& axis) { return coordinate(mesh_, shard, axis); }));
  }
  return block;
}

std::vector<std::int64_t> LocalPart::distinct_shards() const {
  std::set<std::vector<std::int64_t>> seen;
  std::vector<std::int64_t> shards;
  for (std::int64_t shard = first_shard_; shard < first_shard_ + shards_; ++shard) {
    if (seen.insert(block_of(shard)).second) shards.push_back(shard);
  }
  return shards;
}

}  // namespace lockstep::ops::collective
