#pragma once

#include <optional>

#include <lockstep/array.h>

namespace lockstep::nn {

/// bool [N, positions]: those within the lengths [N].
Array within(const Array& lengths, std::int64_t positions);

/// x [N, positions, features] where it is seen or finite, else 0: of NaN that nobody sees, 0 times it must not come into
/// gradients of the kernels that x is multiplied by. Nothing seen: x.
Array without_unseen(const Array& x, const std::optional<Array>& seen);

/// Keys that a query may see by lengths and a mask that broadcasts to logits [N, ..., T, S], bool [N or 1, S or 1]; none
/// where neither is given.
std::optional<Array> seen_keys(const std::optional<Array>& lengths, const std::optional<Array>& mask,
                               const Shape& logits);

/// Queries that may see a key, [N or 1, T or 1], likewise: the others take a mean that does not depend on them.
std::optional<Array> seeing_queries(const std::optional<Array>& lengths, const std::optional<Array>& mask,
                                    const Shape& logits);

}  // namespace lockstep::nn
