#pragma once

namespace lockstep::benches {

/// Resident memory of this process in MiB: now, and the most there ever was.
double resident_mib();
double peak_resident_mib();

}  // namespace lockstep::benches
