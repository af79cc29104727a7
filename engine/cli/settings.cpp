#include "engine/cli/settings.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep::cli {
namespace {

constexpr const char* owners[] = {"model", "optimizer", "schedule", "data"};

std::vector<CLI::ConfigItem> items_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw ValueError(fmt::format("--config {}: there is no such file, or it cannot be read", path));
  try {
    return CLI::ConfigTOML().from_config(file);
  } catch (const CLI::Error& error) {
    throw ValueError(fmt::format("--config {}: {}", path, error.what()));
  }
}

/// The value of "--name value" and "--name=value".
std::optional<std::string> value_of(const std::vector<std::string>& arguments, const std::string& name) {
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

std::vector<std::string> arguments_of(const CLI::ConfigItem& item, const std::string& path,
                                      const std::set<std::string>& given) {
  if (item.name == "++" || item.name == "--") return {};  // CLI11's marks of where a table begins and ends
  if (item.parents.size() > 1) {
    throw ValueError(
        fmt::format("--config {}: {} is in a table of a table; expected names, and tables [model], "
                    "[optimizer], [schedule], [data]",
                    path, item.fullname()));
  }
  std::string value;
  for (const std::string& input : item.inputs) value += (value.empty() ? "" : ",") + input;
  if (!item.parents.empty()) {
    const std::string name = item.parents[0] + "." + item.name;
    if (given.contains("--set " + name)) return {};
    return {"--set", name + "=" + value};
  }
  const std::string name = "--" + item.name;
  if (given.contains(name) || value == "false") return {};
  if (value == "true") return {name};
  if (item.inputs.size() > 1) {
    std::vector<std::string> each;
    for (const std::string& input : item.inputs) each.insert(each.end(), {name, input});
    return each;
  }
  return {name + "=" + value};
}

bool is_plain(const std::string& text) {
  if (text == "true" || text == "false") return true;
  double number = 0;
  return CLI::detail::lexical_cast(text, number);
}

std::string quoted(const std::string& text) {
  if (is_plain(text)) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace

std::vector<std::string> with_config(const std::vector<std::string>& arguments) {
  const std::optional<std::string> path = value_of(arguments, "--config");
  if (!path) return arguments;
  std::vector<std::string> result = arguments;
  const std::set<std::string> given = given_names(arguments);
  for (const CLI::ConfigItem& item : items_of(*path)) {
    const std::vector<std::string> more = arguments_of(item, *path, given);
    result.insert(result.end(), more.begin(), more.end());
  }
  return result;
}

std::string config_text(const std::map<std::string, std::string>& flags,
                        const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [name, value] : flags) {
    if (!value.empty()) text += fmt::format("{} = {}\n", name, quoted(value));
  }
  std::string table;
  for (const auto& [name, value] : settings) {
    const std::size_t point = name.find('.');
    if (name.substr(0, point) != table) {
      table = name.substr(0, point);
      text += fmt::format("\n[{}]\n", table);
    }
    text += fmt::format("{} = {}\n", name.substr(point + 1), quoted(value));
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
