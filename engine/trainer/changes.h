#pragma once

#include <lockstep/callbacks.h>
#include <lockstep/tree.h>

namespace lockstep::trainer {

/// The state with what callbacks have asked to be other. Throws StateError for a hyper-parameter or path that the state
/// has not, and for values of other types.
Tree changed(Tree state, const Requests& requests);

}  // namespace lockstep::trainer
