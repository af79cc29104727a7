#pragma once

#include <functional>
#include <string_view>

#include "engine/ir/function.h"

namespace lockstep::ir {

/// Finds a primitive by name, or null.
using PrimitiveLookup = std::function<const Primitive*(std::string_view name)>;

/// Reads what `Function::print` writes; print(parse(text)) == text. Throws IrError naming line and column.
FunctionPtr parse(std::string_view text, const PrimitiveLookup& lookup);

}  // namespace lockstep::ir
