#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep::exchange {

/// " (nearest: 'x')" of the name that takes the fewest edits, '.' and '/' being alike; "" without names.
std::string nearest(std::string_view name, std::span<const std::string> names);

}  // namespace lockstep::exchange
