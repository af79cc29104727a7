#pragma once

#include <functional>
#include <string_view>

#include <lockstep/export.h>

#include "engine/ir/function.h"

namespace lockstep::ir {

/// Finds a primitive by name, or null.
using PrimitiveLookup = std::function<const Primitive*(std::string_view name)>;

/// Reads what `Function::print` writes; print(parse(text)) == text. What comes back keeps the rules of `verify`: each op's
/// own rule has seen operands and attributes and gives the types that are written. Throws IrError naming line and column,
/// or the equation.
LOCKSTEP_API FunctionPtr parse(std::string_view text, const PrimitiveLookup& lookup);

}  // namespace lockstep::ir
