#pragma once

namespace lockstep {

/// What an environment variable says that is on or off: 1, true, on or yes; 0, false, off or no. `otherwise` where it is not
/// set, or empty. Throws ValueError for any other text.
bool environment_flag(const char* name, bool otherwise);

}  // namespace lockstep
