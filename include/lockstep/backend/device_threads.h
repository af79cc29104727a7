#pragma once

#include <functional>

#include <lockstep/export.h>

namespace lockstep::backend {

/// Cores that this process may use: those it was bound to, or its part of all where `processes` share them.
LOCKSTEP_API int own_cores(int processes = 1);

/// Devices of the widest call of a compiled function that this thread made since it asked last; 0 where it made none.
LOCKSTEP_API int devices_of_calls();

/// Calls part(i) once for each i of [0, parts), on the calling thread and on threads of devices that wait for their next
/// call; those compute as the caller's settings of floating-point numbers say. Device d of D begins with the dth Dth of the
/// parts, and then takes what others have left. Alone on the calling thread where no device waits, or more wait than there are cores. What a part throws is
/// thrown here behind the last one that runs: of several, that of the lowest part, and those above it may be left out.
LOCKSTEP_API void on_waiting_threads(int parts, const std::function<void(int)>& part);

}  // namespace lockstep::backend
