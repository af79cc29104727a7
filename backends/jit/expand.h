#pragma once

#include <optional>

#include <lockstep/backend/element_loop.h>

#include "backends/jit/code.h"

namespace lockstep::backend::jit {

/// The steps of a loop of float32, int32, uint32 and bool; nothing where it has an op or dtype that is no sequence of
/// steps, or too many. Operands are not marked uniform, results not as added.
std::optional<Loop> expand(const ElementLoop& loop);

}  // namespace lockstep::backend::jit
