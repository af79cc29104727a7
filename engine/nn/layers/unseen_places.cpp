#include "engine/nn/layers/unseen_places.h"

#include <vector>

#include <lockstep/elementwise.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

namespace lockstep::nn {
namespace {

/// Whether a mask that broadcasts to logits [N, ..., T, S] is true anywhere along all but rows and that dimension: [N, T]
/// or [N, S], of extent 1 where the mask is.
Array any_but(const Array& mask, int kept, const Shape& logits) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(logits.rank() - mask.ndim()), 1);
  for (int i = 0; i < mask.ndim(); ++i) extents.push_back(mask.dim(i));
  Axes others;
  for (int i = 1; i < logits.rank(); ++i) {
    if (i != kept) others.push_back(i);
  }
  return any(reshape(mask, extents), others);
}

std::optional<Array> both(const std::optional<Array>& lengths, const std::optional<Array>& mask, int dim,
                          const Shape& logits) {
  const std::optional<Array> masked = mask ? std::optional(any_but(*mask, dim, logits)) : std::nullopt;
  if (!lengths) return masked;
  const Array held = within(*lengths, logits.dim(dim));
  return masked ? held & *masked : held;
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
                               const Shape& logits) {
  return both(lengths, mask, logits.rank() - 1, logits);
}

std::optional<Array> seeing_queries(const std::optional<Array>& lengths, const std::optional<Array>& mask,
                                    const Shape& logits) {
  return both(lengths, mask, logits.rank() - 2, logits);
}

}  // namespace lockstep::nn
