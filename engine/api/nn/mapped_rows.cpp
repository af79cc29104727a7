// Reductions over the mesh inside a vmap over a shard's rows.
#include <string>

#include <lockstep/error.h>
#include <lockstep/weighted.h>

#include "engine/trace/trace.h"

namespace lockstep::detail {

void check_no_mapped_rows(std::string_view who, const AxisSet& axes, std::string_view instead) {
  const AxisSet mapped = tracing::axes_of_mapped_rows();
  const AxisSet mixed = axes.without(axes.without(mapped));
  if (mixed.empty()) return;
  throw MeshError(
      "[" + std::string(who) + "] it reduces over " + to_string(mixed) +
      " inside a vmap over rows, which differ from shard to shard, so it would join row i of every shard; " +
      std::string(instead));
}

}  // namespace lockstep::detail
