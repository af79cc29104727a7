// Texts of errors about names and patterns that may be of any length.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// The text, or where it is long its first 200 bytes and how many it has.
inline std::string shortened(std::string_view text) {
  constexpr std::size_t longest = 200;
  if (text.size() <= longest) return std::string(text);
  return std::string(text.substr(0, longest)) + "... (" + std::to_string(text.size()) + " bytes)";
}

}  // namespace lockstep
