#pragma once

#include <span>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/debug.h>

#include "engine/ir/function.h"

namespace lockstep::api {

/// Throws NonFiniteError where `results` hold what `options` look for: it names the first equation of `function` that made
/// such a value of operands that held none, or the argument that did.
void check_finite(const ir::FunctionPtr& function, const std::vector<Array>& arguments, std::span<const Array> results,
                  const DebugOptions& options);

}  // namespace lockstep::api
