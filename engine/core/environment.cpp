#include "engine/core/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

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

}  // namespace lockstep
