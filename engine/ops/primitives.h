#pragma once

#include <span>
#include <string_view>

#include <lockstep/export.h>

#include "engine/ir/primitive.h"

namespace lockstep::ops::primitives {

// One function per line of ops.def, each defined in its family's folder.
#define LOCKSTEP_OP(name, form) LOCKSTEP_API const ir::Primitive& name();
#include <lockstep/ops.def>
#undef LOCKSTEP_OP

}  // namespace lockstep::ops::primitives

namespace lockstep::ops {

using PrimitiveGetter = const ir::Primitive& (*)();

/// Every op of ops.def, in its order.
std::span<const PrimitiveGetter> all_primitives();
/// Null where there is none of that name.
const ir::Primitive* find_primitive(std::string_view name);

}  // namespace lockstep::ops
