#pragma once

#include "engine/ir/function.h"
#include "engine/partition/layouts.h"

namespace lockstep::partition {

/// The function with sums that a layout may cut anywhere and that keep their bits, where each is taken by blocks of its
/// own: sums over several dimensions are taken one after the other, the last one first, those side by side as one; sums
/// of 16-bit floats in float32, rounded once when all is added, as psum has them.
ir::FunctionPtr sums_in_one_order(const ir::FunctionPtr& function, const Setting& setting);

}  // namespace lockstep::partition
