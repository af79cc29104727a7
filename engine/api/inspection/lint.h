#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/ir/function.h"

namespace lockstep::api {

/// What Function::lint says: one text for each `select` of the function, or of one inside it, whose branch that is not
/// taken makes a NaN of the gradient. Derivatives are those with respect to the first `active` inputs.
std::vector<std::string> lint(const ir::FunctionPtr& function, std::size_t active);

}  // namespace lockstep::api
