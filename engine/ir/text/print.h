#pragma once

#include <string>

#include "engine/ir/function.h"

namespace lockstep::ir {

/// One equation as it stands in the printed function, for messages.
std::string print_equation(const Function& function, const Equation& equation);
/// The name of a var in the printed function: a..z, aa, ab, ... in order of definition; "?7" for one never defined.
std::string print_var(const Function& function, Var v);

}  // namespace lockstep::ir
