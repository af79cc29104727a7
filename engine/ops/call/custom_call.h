#pragma once

#include "engine/ir/primitive.h"

namespace lockstep::ops {

/// The one op of all that programs bring along (engine/ir/custom_op.h). Not in ops.def: no text and no request by name
/// can give it its attribute.
const ir::Primitive& custom_call();

}  // namespace lockstep::ops
