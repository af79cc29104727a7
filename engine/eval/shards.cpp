#include "engine/eval/shards.h"

namespace lockstep::eval {

std::int64_t Shards::stride(std::string_view axis) const {
  std::int64_t stride = 1;
  for (auto place = axes_.axes().rbegin(); place != axes_.axes().rend() && place->name != axis; ++place) {
    stride *= place->size;
  }
  return stride;
}

std::int64_t Shards::coordinate(std::int64_t shard, std::string_view axis) const {
  return shard / stride(axis) % axes_.size(axis, "coordinate");
}

std::int64_t Shards::representative(std::int64_t shard, const AxisSet& varying) const {
  std::int64_t result = 0;
  for (const std::string& axis : varying) result += coordinate(shard, axis) * stride(axis);
  return result;
}

std::vector<std::int64_t> Shards::group(std::int64_t shard, std::string_view axis) const {
  std::vector<std::int64_t> result;
  const std::int64_t step = stride(axis);
  const std::int64_t first = shard - coordinate(shard, axis) * step;
  for (std::int64_t i = 0; i < axes_.size(axis, "group"); ++i) result.push_back(first + i * step);
  return result;
}

}  // namespace lockstep::eval
