#pragma once

#include <string>
#include <string_view>

namespace lockstep {

inline std::string printed(const std::string& text) { return text; }
inline std::string printed(std::string_view text) { return std::string(text); }
inline std::string printed(const char* text) { return text; }
inline std::string printed(long value) { return std::to_string(value); }
inline std::string printed(long long value) { return std::to_string(value); }
inline std::string printed(int value) { return std::to_string(value); }
inline std::string printed(unsigned long value) { return std::to_string(value); }

/// The items of a list for a message: join(names, ", ") -> "batch, model".
template <class List>
std::string join(const List& list, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& item : list) {
    if (!first) text += separator;
    first = false;
    text += printed(item);
  }
  return text;
}

}  // namespace lockstep
