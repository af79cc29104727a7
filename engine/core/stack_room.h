// Whether a function may still call itself: what nests without end ends in an error, and not in a crash.
#pragma once

#include <lockstep/export.h>

namespace lockstep {

/// Whether this thread's stack has room for what the library does between two such questions. True where the stack is not
/// known, as on one that a program has made for itself.
LOCKSTEP_API bool has_stack_room() noexcept;

/// Throws TraceError where it has none: a function calls itself without end.
void expect_stack_room();

}  // namespace lockstep
