#pragma once

#include <span>

#include "engine/ir/primitive.h"

// How calls fit operands that vary along more axes than their functions were traced for: all functions of a call are
// typed anew, together.
namespace lockstep::ops::call {

/// A pvary of an input is left to the caller as well, so that one in a loop's body can leave the loop.
ir::Aligned align_checkpoint(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs);
ir::Aligned align_custom_jvp(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs);
ir::Aligned align_custom_vjp(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs);

}  // namespace lockstep::ops::call
