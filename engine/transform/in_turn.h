#pragma once

#include <cstddef>
#include <string>

#include "engine/ir/function.h"

namespace lockstep::transform {

/// Writes out for all replicas along `axis` what `f` does for one: one after the other, in a scan. f: (index, int32 and the
/// replica's number; `parts` inputs that vary along the axis; other inputs that do not) -> results, none of which may vary
/// along it. The function returned takes the parts stacked along a new first dimension, then the others; the axis is bound
/// in it no more. What does not depend on the replica stands before the scan, once. A psum, pmax, pmin or
/// all_gather_invariant along the axis is accumulated by the scan, float16 and bfloat16 sums in float32, and what needs
/// its result stands behind, once; the rest of its axes are reduced there. So only one replica's values live at a time.
/// Throws MeshError naming op and layer where a replica needs a result of all of them, where a collective of another kind
/// communicates along the axis or one does so inside of a loop or branch, and where a result varies along it.
ir::FunctionPtr in_turn(const ir::FunctionPtr& f, std::size_t parts, const std::string& axis);

}  // namespace lockstep::transform
