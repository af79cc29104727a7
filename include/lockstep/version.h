#pragma once

#include <string_view>

#include <lockstep/export.h>

namespace lockstep {

/// "major.minor.patch".
LOCKSTEP_API std::string_view version();

/// Version of the random streams' definition (which key and counter give which bits); kept in saved runs.
inline constexpr int random_stream_version = 1;

}  // namespace lockstep
