#include "engine/core/environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include <lockstep/error.h>

namespace lockstep {

bool environment_flag(const char* name, bool otherwise) {
  constexpr std::array<std::string_view, 4> on = {"1", "true", "on", "yes"};
  constexpr std::array<std::string_view, 4> off = {"0", "false", "off", "no"};
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return otherwise;
  if (std::ranges::find(on, value) != on.end()) return true;
  if (std::ranges::find(off, value) != off.end()) return false;
  throw ValueError(std::string(name) + "=" + value +
                   " is neither on nor off; write 1 or 0, or unset it for the default");
}

std::int64_t environment_count(const char* name, std::int64_t otherwise) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return otherwise;
  const std::string_view text(value);
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count >= 0) return count;
  throw ValueError(std::string(name) + "=" + value +
                   " is no number from 0 on; write digits alone, or unset it for the default");
}

}  // namespace lockstep
