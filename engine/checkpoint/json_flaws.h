#pragma once

#include <string>
#include <string_view>

namespace lockstep::checkpoint {

/// What a JSON text may have that a parser takes without a word.
struct JsonFlaws {
  std::string repeated;      ///< A key that an object has twice: all but the last would be lost.
  bool is_too_deep = false;  ///< Nobody could walk through it, for want of stack.
};

/// Those of a text, in one pass that takes memory for keys alone; `deepest`: how many lists and objects may be in each
/// other. What is no JSON is judged as far as it is.
JsonFlaws flaws_of(std::string_view json, int deepest);

}  // namespace lockstep::checkpoint
