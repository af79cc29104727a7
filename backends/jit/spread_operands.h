#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/element_loop.h>

#include "backends/jit/nest.h"

// An operand that is the same along the last few elements, as a mean for each group of an image's channels is, cuts a loop
// into rows as short as that. Written out along them beforehand it goes on from row to row as the other arrays do.
namespace lockstep::backend::jit {

struct SpreadOperand {
  std::size_t operand = 0;
  std::int64_t times = 1;   ///< That each element stands there.
  std::int64_t nbytes = 0;  ///< Of all.
  Strides strides{};        ///< Of the loop's dimensions, in bytes.
};

/// Those of the loop over `shape` that are worth it: its rows get longer then, and what is written is little beside all
/// that the loop goes over. `strides` are those of operands and results.
std::vector<SpreadOperand> operands_to_spread(const ElementLoop& loop, const KernelRequest& request, const Shape& shape,
                                              std::span<const Strides> strides);

/// Writes the operand's elements, wherever they lie, each so many times.
void spread(const SpreadOperand& operand, const ArrayView& from, std::byte* to);

}  // namespace lockstep::backend::jit
