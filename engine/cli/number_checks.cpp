#include "engine/cli/number_checks.h"

#include <charconv>
#include <string>

#include <fmt/format.h>

namespace lockstep::cli {
namespace {

/// Whether all of the text is a number.
template <class T>
bool reads_as(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return {[=](const std::string& text) {
            std::uint64_t value = 0;
            const bool padded = text.size() > 1 && text[0] == '0';
            if (!padded && reads_as(text, value) && value >= least && value <= most) return std::string();
            return fmt::format("'{}' is no whole number from {} to {} in decimal digits", text, least, most);
          },
          fmt::format("{} to {}", least, most)};
}

CLI::Validator seconds() {
  constexpr double year = 366.0 * 24 * 3600;
  return {[](const std::string& text) {
            double value = 0;
            if (reads_as(text, value) && value > 0 && value <= year) return std::string();
            return fmt::format("'{}' is no number of seconds above 0 and up to a year", text);
          },
          "SECONDS"};
}

}  // namespace lockstep::cli
