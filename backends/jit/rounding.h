#pragma once

#include "backends/jit/code.h"

namespace lockstep::backend::jit {

/// Whether this processor has an instruction that rounds to bfloat16.
bool has_bfloat16_rounding();

/// The loop with roundings to bfloat16 in integers, for processors without an instruction for it: equal bits.
Loop round_in_integers(const Loop& loop);

}  // namespace lockstep::backend::jit
