#pragma once

#include <string_view>

#include <lockstep/export.h>

#include "engine/ir/primitive.h"

// Results that are defined by an equation and found by whatever function finds them: their derivatives come from the
// equation. Operands are `consts` constants and then vectors; all functions of an op take the constants first. Neither is
// in ops.def: a request by name could give functions that do not solve the equation. Only texts of programs name them.
namespace lockstep::ops {

/// linear_solve(const..., b...)[body, matvec, transposed, consts] -> x... with matvec(const..., x...) = b. body and, for
/// the adjoint of matvec, transposed (optional) take (const..., b...). Constants that matvec does not use have no
/// derivative.
LOCKSTEP_API const ir::Primitive& linear_solve();

/// root(const..., start...)[body, residual, matvec, solve, transposed, consts] -> x... with residual(const..., x...) = 0.
/// body takes (const..., start...); matvec (const..., x..., v...) is the residual's derivative along v, solve and
/// transposed (optional) take (const..., x..., b...) and solve with it and with its adjoint. The start has no derivative.
LOCKSTEP_API const ir::Primitive& root();

/// The op of that name in a program's text: one of ops.def, or one of these. Null where there is none.
LOCKSTEP_API const ir::Primitive* find_in_text(std::string_view name);

}  // namespace lockstep::ops
