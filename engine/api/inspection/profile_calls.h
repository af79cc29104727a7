#pragma once

#include <memory>

#include <lockstep/profile.h>

#include "engine/api/transforms/runtime.h"
#include "engine/executable/executable.h"

namespace lockstep::api {

/// As `run`, noted in the profile where it still wants calls.
void run_profiled(Profile& profile, const std::shared_ptr<const executable::Executable>& executable, CallSpace& space);

}  // namespace lockstep::api
