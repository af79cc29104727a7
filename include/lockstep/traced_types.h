#pragma once

#include <vector>

#include <lockstep/export.h>
#include <lockstep/function.h>
#include <lockstep/tree_function.h>
#include <lockstep/types.h>

namespace lockstep::detail {
/// Traces a function of arrays at their types, of which no array is made: what reads a program makes none as large as the
/// program says its arguments are.
LOCKSTEP_API Function trace_at(const TreeFunction& function, const std::vector<ArrayType>& types);
}  // namespace lockstep::detail
