#include "engine/nn/layers/unseen_places.h"

#include <lockstep/elementwise.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

namespace lockstep::nn {
namespace {

/// A mask [N, ..., S] of one row for all queries and heads, as [N, S].
std::optional<Array> mask_of_keys(const Array& mask, std::int64_t keys) {
  const int rank = mask.ndim();
  if (rank < 3 || mask.dim(-1) != keys) return std::nullopt;
  for (int i = 1; i + 1 < rank; ++i) {
    if (mask.dim(i) != 1) return std::nullopt;
  }
  return reshape(mask != 0, {mask.dim(0), keys});
}

}  // namespace

Array within(const Array& lengths, std::int64_t positions) {
  // A dtype that holds every length need not hold every position.
  const Array wide = size_of(lengths.dtype()) < 4 ? convert(lengths, int32) : lengths;
  return expand_dims(arange(positions, wide.dtype()), 0) < expand_dims(wide, 1);
}

Array without_unseen(const Array& x, const std::optional<Array>& seen) {
  return seen ? where(expand_dims(*seen, 2) | is_finite(x), x, 0) : x;
}

std::optional<Array> seen_keys(const std::optional<Array>& lengths, const std::optional<Array>& mask,
                               std::int64_t keys) {
  const std::optional<Array> masked = mask ? mask_of_keys(*mask, keys) : std::nullopt;
  if (!lengths) return masked;
  const Array held = within(*lengths, keys);
  return masked ? held & *masked : held;
}

}  // namespace lockstep::nn
