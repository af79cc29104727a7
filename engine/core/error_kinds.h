#pragma once

#include <string>

#include <lockstep/error.h>

namespace lockstep {

/// Throws an error of the kind of `error` with another text; where its kind is none of error.h, `error` itself. To be
/// called where that was caught.
[[noreturn]] void throw_alike(const Error& error, const std::string& text);

}  // namespace lockstep
