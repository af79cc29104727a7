#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/types.h>

namespace lockstep {

/// The most bytes an array may have, and the largest number that says something of a shape: more than any processor
/// addresses, and so few that the sum of a hundred of them fits 63 bits.
inline constexpr std::int64_t most_bytes = std::int64_t{1} << 56;

/// Replicas that the axes of a mesh may have in all.
inline constexpr std::int64_t most_replicas = std::int64_t{1} << 20;

/// a + b and a * b. Throw ShapeError naming `op` where the result does not fit 64 bits.
std::int64_t checked_sum(std::int64_t a, std::int64_t b, std::string_view op);
std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view op);

/// Throws ShapeError naming `op` unless elements and bytes, counted with 1 for extents of 0, stay below `most_bytes`: then
/// no stride and no offset of the array overflows.
void check_size(std::string_view op, const ArrayType& type);

}  // namespace lockstep
