#pragma once

#include <string_view>

#include <lockstep/types.h>

namespace lockstep {

/// Throws MeshError naming `who` for a device that no backend of this build runs on.
void check_device(std::string_view who, const Device& device);

}  // namespace lockstep
