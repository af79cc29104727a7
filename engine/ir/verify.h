#pragma once

#include "engine/ir/function.h"

namespace lockstep::ir {

/// Checks a function and its sub-functions: every var defined once and before use, recorded types equal to inferred ones
/// (dtype, shape, varying), axes bound, a sub-function's collectives over axes along which its trip count or predicate is
/// invariant. Throws IrError naming the equation, printed.
void verify(const Function& function);

}  // namespace lockstep::ir
