#pragma once

#include <cstdint>

#include <lockstep/callbacks.h>
#include <lockstep/tree.h>

namespace lockstep::trainer {

/// The state with what callbacks have asked to be other. Throws StateError for a hyper-parameter or path that the state
/// has not, and for values of other types.
Tree changed(Tree state, const Requests& requests);

/// Sees that callbacks have asked for the same in all processes behind step `step`: of a stop, a save, hyper-parameters and
/// replaced leaves. Throws CommunicatorError in all of them naming what differs. Where nothing is asked for nothing is
/// communicated: a process whose callbacks ask for something that no other does is then in another collective.
void check_requests(const Requests& requests, std::int64_t step);

}  // namespace lockstep::trainer
