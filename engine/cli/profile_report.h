#pragma once

#include <lockstep/profile.h>

namespace lockstep::cli {

/// Prints what the recorded steps were spent on, by op and by layer, beside what the machine can do.
void print_profile(const Profile& profile, const Peak& peak);

}  // namespace lockstep::cli
