#include "engine/cli/argument_checks.h"

#include <cstdlib>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "engine/cli/named_options.h"

namespace lockstep::cli {
bool is_padded(std::string_view digits) { return digits.size() > 1 && digits[0] == '0'; }

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return {[=](const std::string& text) {
            const std::optional<std::uint64_t> value = number_in<std::uint64_t>(text);
            if (!is_padded(text) && value && *value >= least && *value <= most) return std::string();
            return fmt::format("'{}' is no whole number from {} to {} in decimal digits", text, least, most);
          },
          fmt::format("{} to {}", least, most)};
}

CLI::Validator seconds() {
  constexpr double year = 366.0 * 24 * 3600;
  return {[](const std::string& text) {
            const std::optional<double> value = number_in<double>(text);
            if (value && *value > 0 && *value <= year) return std::string();
            return fmt::format("'{}' is no number of seconds above 0 and up to a year", text);
          },
          "SECONDS"};
}

CLI::Validator not_vanishing() {
  return {[](const std::string& text) {
            const std::string digits = text.substr(0, text.find_first_of("eE"));
            const bool is_zero = digits.find_first_of("123456789") == std::string::npos;
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            if (is_zero || value != 0 || end != text.c_str() + text.size()) return std::string();
            return fmt::format("'{}' is closer to 0 than any number of 64 bits; write 0, or 4.95e-324 or more", text);
          },
          ""};
}

CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("it is an empty text; write a value behind it, or leave it out")
                                : std::string();
          },
          ""};
}

}  // namespace lockstep::cli
