#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/export.h>

#include "engine/files/json_value.h"

namespace lockstep::json {

/// A text that was read.
struct Parsed {
  std::optional<Value> value;  ///< None where the text is no JSON of UTF-8, or has a flaw.
  std::string repeated;        ///< A name that entries have twice: all but the last would be lost.
  bool is_too_deep = false;    ///< Nobody could walk through it, for want of stack.
};

/// `deepest`: how many lists and objects may be in each other. Throws std::bad_alloc.
LOCKSTEP_API Parsed parse(std::string_view text, int deepest = 64);

/// What a file holds; none where no file is there or no such text in it. Throws DataError where it cannot be read, as a link, a
/// FIFO, a device and a socket are not.
std::optional<Value> parse_file(const std::filesystem::path& file);

}  // namespace lockstep::json
