#pragma once

#include <istream>
#include <string>
#include <vector>

namespace lockstep::cli {

/// A value of a configuration, as it would stand on the command line.
struct ConfigEntry {
  std::string table;  ///< "" for what stands before the first table.
  std::string name;
  std::vector<std::string> values;  ///< Of an array each element.
  bool is_switch = false;           ///< true or false.
};

/// The entries of a text in TOML 1.0, in the order of their names. Throws ValueError naming `path` and line for what is no
/// TOML, for a table in a table, a date, and an array of anything but texts and numbers.
std::vector<ConfigEntry> read_config(std::istream& config, const std::string& path);

/// "text" in TOML: as it stands where that is a number, true or false, else in quotes.
std::string config_value(const std::string& text);

}  // namespace lockstep::cli
