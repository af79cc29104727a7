#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ir/function.h"

namespace lockstep::eval {

/// The shards of a mesh: numbers 0 .. count - 1, row-major over the mesh axes.
class Shards {
 public:
  explicit Shards(ir::AxisSizes axes) : axes_(std::move(axes)) {}

  const ir::AxisSizes& axes() const { return axes_; }
  std::int64_t count() const { return axes_.total(); }
  std::int64_t coordinate(std::int64_t shard, std::string_view axis) const;
  /// The first of the shards that agree with `shard` along `varying`: what varies along these axes alone is the same on
  /// all of them. Never above `shard`.
  std::int64_t representative(std::int64_t shard, const AxisSet& varying) const;
  /// The shards that differ from `shard` along `axis` alone, itself included, in the order of the axis.
  std::vector<std::int64_t> group(std::int64_t shard, std::string_view axis) const;

  /// One value per shard, where `make(shard)` is called once per representative and shared by those it stands for.
  template <class T, class Make>
  std::vector<T> share(const AxisSet& varying, const Make& make) const {
    std::vector<T> result = repeated<T>(count());
    for (std::int64_t shard = 0; shard < count(); ++shard) {
      const std::int64_t first = representative(shard, varying);
      nth(result, shard) = first == shard ? make(shard) : nth(result, first);
    }
    return result;
  }

 private:
  std::int64_t stride(std::string_view axis) const;

  ir::AxisSizes axes_;
};

}  // namespace lockstep::eval
