#pragma once

#include "engine/ir/function.h"

namespace lockstep::ir {

/// Checks a function and its sub-functions: every var defined once and before use, recorded types equal to inferred ones
/// (dtype, shape, varying), operands of one equation varying along the same axes, axes bound. Throws IrError naming the
/// equation, printed, and where it came from.
void verify(const Function& function);

}  // namespace lockstep::ir
