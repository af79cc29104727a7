#pragma once

#include <optional>

#include <lockstep/array.h>

namespace lockstep::nn {

/// bool [N, positions]: those within the lengths [N].
Array within(const Array& lengths, std::int64_t positions);

/// x [N, positions, features] where it is seen or finite, else 0: of NaN that nobody sees, 0 times it must not come into
/// gradients of the kernels that x is multiplied by. Nothing seen: x.
Array without_unseen(const Array& x, const std::optional<Array>& seen);

/// Keys that lengths and a mask say to be seen, bool [N or 1, S]; none where neither says so for all queries and heads
/// alike.
std::optional<Array> seen_keys(const std::optional<Array>& lengths, const std::optional<Array>& mask,
                               std::int64_t keys);

}  // namespace lockstep::nn
