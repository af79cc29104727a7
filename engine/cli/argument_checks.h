#pragma once

#include <cstdint>
#include <string_view>

// Complete in <CLI/CLI.hpp>, which takes seconds to compile.
namespace CLI {
class Validator;
}  // namespace CLI

// Checks of arguments as they stand on the command line. CLI11 alone reads 010 as 8 and "" as 0, takes the largest number
// for one that is too large, and finds NaN in each range.
namespace lockstep::cli {

/// Whether zeros stand before a number.
bool is_padded(std::string_view digits);
/// A whole number in decimal digits from `least` to `most`, without zeros before it.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = std::uint64_t{1} << 40);

/// Seconds above 0, at most a year.
CLI::Validator seconds();

/// What no option takes: an empty text, which would pass for one that was left out.
CLI::Validator not_empty();
/// A number that is not read as 0 but where it is 0.
CLI::Validator not_vanishing();

}  // namespace lockstep::cli
