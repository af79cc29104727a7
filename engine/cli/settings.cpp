#include "engine/cli/settings.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

#include "engine/cli/config_file.h"
#include "engine/cli/options.h"
#include "engine/files/open_file.h"

namespace lockstep::cli {
namespace {

constexpr const char* owners[] = {"model", "optimizer", "schedule", "data"};

/// The text of a file, without the mark that some editors begin it with.
std::string config_file(const std::string& path) {
  constexpr std::uintmax_t largest = std::uintmax_t{1} << 20;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    const char* what = path.empty()                           ? "'': it is an empty text"
                       : std::filesystem::exists(path, error) ? "{}: it is no file"
                                                              : "{}: there is no such file";
    throw ValueError("--config " + fmt::format(fmt::runtime(what), path) + "; give the path of a TOML file");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > largest) {
    throw ValueError(
        fmt::format("--config {}: the file has {} bytes; expected a TOML file of at most {}", path, size, largest));
  }
  const std::string text = [&] {
    try {
      return files::read_text(path, files::Links::followed);
    } catch (const files::FileError&) {
      throw ValueError(fmt::format("--config {}: the file cannot be read; check its permissions", path));
    }
  }();
  if (const std::size_t at = text.find('\0'); at != std::string::npos) {
    throw ValueError(fmt::format("--config {}: byte {} is NUL; expected the text of a TOML file", path, at));
  }
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

/// The value of "--name value" and "--name=value".
std::optional<std::string> value_given(const std::vector<std::string>& arguments, const std::string& name) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == name) {
      if (i + 1 == arguments.size()) throw ValueError(name + " given without a value; write " + name + " FILE");
      return arguments[i + 1];
    }
    if (arguments[i].starts_with(name + "=")) return arguments[i].substr(name.size() + 1);
  }
  return std::nullopt;
}

/// Names of the flags and options that the arguments give themselves, and of settings as "--set model.width".
std::set<std::string> given_names(const std::vector<std::string>& arguments) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) continue;
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    names.insert(name);
    if (name != "--set") continue;
    const bool is_apart = arguments[i] == name && i + 1 < arguments.size();
    const std::string setting = is_apart ? arguments[i + 1] : arguments[i].substr(name.size() + 1);
    names.insert("--set " + setting.substr(0, setting.find('=')));
  }
  return names;
}

bool is_owner(const std::string& name) { return std::ranges::find(owners, name) != std::end(owners); }

/// Things that the command line names otherwise than the file does, whose options there are those of the file's.
std::set<std::string> replaced_things(const std::vector<ConfigEntry>& entries,
                                      const std::vector<std::string>& arguments) {
  std::set<std::string> things;
  for (const ConfigEntry& entry : entries) {
    const std::string& thing = entry.table.empty() ? entry.name : entry.table;
    if (!is_owner(thing) || (!entry.table.empty() && entry.name != "name")) continue;
    const std::optional<std::string> named = value_given(arguments, "--" + thing);
    if (named && entry.values != std::vector{*named}) things.insert(thing);
  }
  return things;
}

/// Flags that stand for the same on the command line, of which it gives one.
bool is_given_otherwise(const std::string& name, const std::set<std::string>& given) {
  constexpr std::pair<const char*, const char*> alternatives[] = {{"seed", "seeds"}, {"steps", "epochs"}};
  return std::ranges::any_of(alternatives, [&](const auto& pair) {
    const auto& [a, b] = pair;
    return (name == a && given.contains(std::string("--") + b)) || (name == b && given.contains(std::string("--") + a));
  });
}

/// What the entry stands for on the command line; nothing where the command line says it itself.
std::vector<std::string> arguments_of_entry(const ConfigEntry& entry, const std::string& path,
                                            const std::set<std::string>& given) {
  const bool names_owner = !entry.table.empty() && entry.name == "name";
  if (!entry.table.empty() && !names_owner) {
    const std::string name = entry.table + "." + entry.name;
    if (given.contains("--set " + name)) return {};
    return {"--set", fmt::format("{}={}", name, fmt::join(entry.values, ","))};
  }
  if (entry.name == "config") {
    throw ValueError(fmt::format("--config {}: it names another config file; write that one's options into it", path));
  }
  if (entry.table.empty() && entry.name == "set") {
    throw ValueError(fmt::format(
        "--config {}: set is none of its entries; write the option into its table: [model] and width = 128", path));
  }
  const std::string name = "--" + (names_owner ? entry.table : entry.name);
  if (given.contains(name)) return {};
  // A run's file names its seed, which --seeds stands before, and its steps or epochs.
  if (!names_owner && is_given_otherwise(entry.name, given)) return {};
  if (std::ranges::find(entry.values, "") != entry.values.end()) {
    throw ValueError(fmt::format("--config {}: {} is an empty text; give it a value, or leave it out", path,
                                 names_owner ? entry.table + ".name" : entry.name));
  }
  if (entry.is_switch) {
    const std::vector<std::string> switches = switch_names();
    if (names_owner || std::ranges::find(switches, entry.name) == switches.end()) {
      throw ValueError(fmt::format("--config {}: {} is {}, which is no value of it; true or false are {}", path,
                                   names_owner ? entry.table + ".name" : entry.name, entry.values[0],
                                   fmt::join(switches, ", ")));
    }
    return entry.values[0] == "true" ? std::vector{name} : std::vector<std::string>{};
  }
  std::vector<std::string> each;
  for (const std::string& value : entry.values) each.insert(each.end(), {name, value});
  if (each.size() == 2) return {name + "=" + each[1]};
  return each;
}

}  // namespace

std::vector<std::string> config_arguments(std::istream& config, const std::string& path,
                                          const std::vector<std::string>& arguments) {
  const std::set<std::string> given = given_names(arguments);
  std::vector<std::string> result;
  const std::vector<ConfigEntry> entries = read_config(config, path);
  const std::set<std::string> replaced = replaced_things(entries, arguments);
  for (const ConfigEntry& entry : entries) {
    if (replaced.contains(entry.table)) continue;
    // The folder is one of the file's data set.
    if (entry.table.empty() && entry.name == "data-dir" && replaced.contains("data")) continue;
    const std::vector<std::string> more = arguments_of_entry(entry, path, given);
    result.insert(result.end(), more.begin(), more.end());
  }
  return result;
}

std::vector<std::string> with_config(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    // CLI11 takes the next argument for the value.
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      throw ValueError(
          fmt::format("{} has nothing behind the equals sign; write a value there, or leave it out", argument));
    }
  }
  const std::optional<std::string> path = value_given(arguments, "--config");
  if (!path) return arguments;
  std::istringstream config(config_file(*path));
  std::vector<std::string> result = arguments;
  const std::vector<std::string> more = config_arguments(config, *path, arguments);
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

std::string config_text(const std::map<std::string, std::string>& flags,
                        const std::map<std::string, std::string>& settings) {
  std::map<std::string, std::map<std::string, std::string>> tables;
  for (const auto& [name, value] : settings) {
    const std::size_t point = name.find('.');
    tables[name.substr(0, point)][name.substr(point + 1)] = value;
  }
  std::string text;
  for (const auto& [name, value] : flags) {
    if (value.empty()) continue;
    if (const auto table = tables.find(name); table != tables.end()) {
      table->second["name"] = value;  // TOML has either a value of that name or a table.
    } else {
      text += fmt::format("{} = {}\n", name, config_value(value));
    }
  }
  for (const auto& [table, values] : tables) {
    text += fmt::format("\n[{}]\n", table);
    for (const auto& [name, value] : values) text += fmt::format("{} = {}\n", name, config_value(value));
  }
  return text;
}

std::map<std::string, std::string> parse_settings(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> settings;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('='), point = text.find('.');
    const std::string owner = text.substr(0, std::min(point, text.size()));
    if (equals == std::string::npos || point == std::string::npos || point > equals) {
      throw ValueError(fmt::format("--set '{}': expected <thing>.<name>=<value>, such as model.width=128", text));
    }
    if (std::ranges::find(owners, owner) == std::end(owners)) {
      throw ValueError(
          fmt::format("--set '{}': '{}' has no options; model, optimizer, schedule and data have", text, owner));
    }
    if (!settings.emplace(text.substr(0, equals), text.substr(equals + 1)).second) {
      throw ValueError(fmt::format("--set {} is given twice; leave one out", text.substr(0, equals)));
    }
  }
  return settings;
}

}  // namespace lockstep::cli
