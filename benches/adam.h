#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include <lockstep/profile.h>

namespace lockstep::benches {

// Adam on ten million parameters whose gradient is given: an optimizer alone, under plain jit.

/// Zeros to start from, and one gradient.
void write_adam_inputs(const std::filesystem::path& folder);
/// Makes one update and reads the first parameter on the host.
std::function<double()> adam_step(const std::filesystem::path& folder, std::shared_ptr<Profile> profile);

}  // namespace lockstep::benches
