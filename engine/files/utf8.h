// Whether bytes are text.
#pragma once

#include <string_view>

#include <lockstep/export.h>

namespace lockstep::files {

/// Whether the bytes are UTF-8 as Unicode has it: shortest forms, no surrogates, up to U+10FFFF.
LOCKSTEP_API bool is_utf8(std::string_view bytes);
/// Whether a tensor or file can have that name: UTF-8 without NUL, not empty.
LOCKSTEP_API bool is_name(std::string_view bytes);

}  // namespace lockstep::files
