#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/compile/make_units.h"
#include "engine/compile/schedule.h"

namespace lockstep::compile {

/// Where a root value's memory is.
struct Placement {
  std::uint32_t base = 0;
  std::uint64_t offset = 0;
  bool per_tile = false;  ///< Scratch of one tile's size.
};

struct Placements {
  IdVector<Placement> of_value;     ///< By value; of roots.
  IdVector<std::uint64_t> scratch;  ///< By unit: where its kernels' own scratch lies.
  IdVector<int> result_of_root;     ///< By value: the result that the root is, or -1.
  IdVector<int> donors;             ///< By result.
  std::size_t arena_bytes = 0;
  std::size_t shard_bytes = 0;
  std::size_t scratch_bytes = 0;
};

Placements place_values(const Program& program, const UnitProgram& units, const Schedule& schedule);

/// Bytes of scratch that the unit's kernels ask for.
std::size_t kernel_scratch(const Unit& unit);

/// Places outside of their block or askew, and two in which bytes are shared while what lies in both is wanted: but for
/// a result that its only call may write over the operand it reads last.
void verify(const Program& program, const UnitProgram& units, const Schedule& schedule, const Placements& placements,
            std::string_view behind);

}  // namespace lockstep::compile
