#pragma once

#include <filesystem>

#include "engine/executable/executable.h"
#include "engine/ir/function.h"

namespace lockstep::api {

/// Writes what becomes of a function to `<folder>/<its hash>/`: 0-traced.txt, a file after each pass, plan.txt. A folder
/// that is there already is left as it is. Throws ValueError where it cannot be written.
void dump_stages(const std::filesystem::path& folder, const ir::Function& function,
                 const executable::Executable& executable);

}  // namespace lockstep::api
