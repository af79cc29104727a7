#pragma once

#include "engine/ir/function.h"

namespace lockstep::ops {

/// Whether the equation writes a constant of zeros.
bool writes_zeros(const ir::Equation& equation);

}  // namespace lockstep::ops
