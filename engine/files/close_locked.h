#pragma once

namespace lockstep::files {

/// Closes a file whose lock (flock) the process `owner` has taken. The lock goes where that process closes it: the system
/// would keep it until all forked children have closed theirs, too, and none of them gives it up for its parent. 0, or the
/// system's error: what was written may not have come to its disk.
int close_locked(int descriptor, int owner);

}  // namespace lockstep::files
