#pragma once

#include <span>

#include <lockstep/attrs.h>
#include <lockstep/backend/backend.h>
#include <lockstep/export.h>

/// What the kernels of debug_print and error_if do, so that it is the same in all backends. Operands (row-major, on the
/// CPU) and attributes are those of the ops. Programs use debug.h.
namespace lockstep::backend::effects {

/// Hands the line that debug_print makes of the operands to its sink.
LOCKSTEP_API void print(const Attrs& attrs, std::span<const ArrayView> operands);
/// Throws CheckError where an element of the predicate holds.
LOCKSTEP_API void check(const Attrs& attrs, std::span<const ArrayView> operands);

}  // namespace lockstep::backend::effects
