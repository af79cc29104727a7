#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// What `attention`, its tangent and its gradient are asked for: q [B,T,N,H], k and v [B,S,K,H], bias and mask of rank 4
/// with the extents of [B,N,T,S] or 1.
struct AttentionGeometry {
  std::int64_t batch, queries, heads, features, keys, key_heads;
  Shape bias, mask;
  double scale;
  std::int64_t left, right;  ///< Of the window; -1: no bound.

  explicit AttentionGeometry(const KernelRequest& request)
      : batch(request.inputs[0].shape[0]),
        queries(request.inputs[0].shape[1]),
        heads(request.inputs[0].shape[2]),
        features(request.inputs[0].shape[3]),
        keys(request.inputs[1].shape[1]),
        key_heads(request.inputs[1].shape[2]),
        bias(request.inputs[3].shape),
        mask(request.inputs[4].shape),
        scale(request.attrs.get<double>("scale")),
        left(bound(request, 0)),
        right(bound(request, 1)) {}

  /// Strides of a row-major array of rank 4 with 0 where it is broadcast.
  static std::array<std::int64_t, 4> broadcast_strides(const Shape& shape) {
    std::array<std::int64_t, 4> result{};
    std::int64_t stride = 1;
    for (int d = 3; d >= 0; --d) {
      result[static_cast<std::size_t>(d)] = shape[d] == 1 ? 0 : stride;
      stride *= shape[d];
    }
    return result;
  }

  /// Place in the log-sum-exps [B,T,N]; times the features, that of the query.
  std::int64_t lse(std::int64_t b, std::int64_t t, std::int64_t n) const { return (b * queries + t) * heads + n; }

 private:
  /// No larger than matters, so that it may be added to a place.
  std::int64_t bound(const KernelRequest& request, std::size_t side) const {
    return std::min(request.attrs.get<std::vector<std::int64_t>>("window")[side], queries + keys);
  }
};

}  // namespace lockstep::backend::cpu
