#pragma once

#include <cstddef>
#include <span>

#include <lockstep/backend/backend.h>

// Contiguous arrays as if they were one behind the other: what goes from process to process together.
namespace lockstep::executable {

using namespace backend;

std::size_t nbytes(const ArrayView& view);
/// Of all.
std::size_t nbytes(std::span<const ArrayView> views);

/// Copies what lies between bytes `first` and `last` of the views to `to`, or from `from` there.
void copy_in(std::span<const ArrayView> views, std::size_t first, std::size_t last, std::byte* to);
void copy_out(const std::byte* from, std::size_t first, std::size_t last, std::span<const ArrayView> views);

/// One of `count` blocks of equal size that a view has, one behind the other.
struct BlockOf {
  std::size_t block = 0;
  std::size_t count = 1;
};
/// As `copy_in`, of that block of each view, as if these were one behind the other.
void copy_in(std::span<const ArrayView> views, BlockOf which, std::size_t first, std::size_t last, std::byte* to);

}  // namespace lockstep::executable
