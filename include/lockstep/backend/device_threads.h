#pragma once

#include <functional>

#include <lockstep/export.h>

namespace lockstep::backend {

/// Cores that this process may use and its compiled functions leave: each device of the widest call so far has one. Cores
/// that all may use are those of `processes` alike; where a process was bound to some of them, they are its own. 0 or
/// less where devices take all of them.
LOCKSTEP_API int spare_cores(int processes = 1);

/// Calls part(i) once for each i of [0, parts), on the calling thread and on threads of devices that wait for their next
/// call; those compute as the caller's settings of floating-point numbers say. Which thread does what differs from call
/// to call. Alone on the calling thread where no device waits, or more wait than there are cores. What a part throws is
/// thrown here behind the last one that runs: of several, that of the lowest part, and those above it may be left out.
LOCKSTEP_API void on_waiting_threads(int parts, const std::function<void(int)>& part);

}  // namespace lockstep::backend
