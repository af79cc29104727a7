#pragma once

#include <memory>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/profile.h>

#include "engine/compile/executable.h"

namespace lockstep::api {

/// As `run`, noted in the profile where it still wants calls.
std::vector<Array> run_profiled(Profile& profile, const std::shared_ptr<const compile::Executable>& executable,
                                std::vector<Array> arguments, const std::vector<bool>& donated);

}  // namespace lockstep::api
