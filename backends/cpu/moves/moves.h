#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

using Strides = std::array<std::int64_t, Shape::max_rank>;
using Index = std::array<std::int64_t, Shape::max_rank>;  ///< Beyond an array's rank, 0.

/// target[i] = the element at `first` plus the sum of i's coordinates times `strides`, for every index i of target's
/// shape; bits are kept.
void copy_elements(const ArrayView& target, const ArrayView& source, void* first, const Strides& strides);

/// Every element of a row-major array becomes the one at `element`.
void fill_elements(const ArrayView& target, const void* element);

/// Address of the element at an index.
void* element_at(const ArrayView& view, std::span<const std::int64_t> index);

/// Element `i` of a row-major array of integers.
std::int64_t integer_at(const ArrayView& view, std::int64_t i);

/// The rank-0 operands `indices` as an index of `shape`, moved so that a block of extents `sizes` fits.
Index clamped_start(std::span<const ArrayView> indices, const Shape& shape, const Shape& sizes);

}  // namespace lockstep::backend::cpu
