#include "engine/cli/config_file.h"

#include <sstream>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep::cli {
namespace {

/// What the parser takes for granted of a text does not hold.
struct UnknownForm {};

constexpr void take_for_granted(bool holds) {
  if (!holds) throw UnknownForm{};
}

}  // namespace
}  // namespace lockstep::cli

// Some texts break what toml++ takes for granted: a header whose name stands on the next line does. Without NDEBUG it asks
// by this macro, with it the compiler may assume the contrary.
#undef NDEBUG
#define TOML_ASSERT(expr) ::lockstep::cli::take_for_granted(static_cast<bool>(expr))
#include <toml++/toml.h>

namespace lockstep::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const toml::source_region& where, const std::string& what) {
  throw ValueError(fmt::format("--config {}: line {}: {}", path, where.begin.line, what));
}

std::string text_of(const toml::node& value, const std::string& path, const std::string& name) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* whole = value.as_integer()) return std::to_string(whole->get());
  if (const auto* number = value.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
  refuse(path, value.source(),
         value.is_table() ? fmt::format("{} is a table in a table; expected names, and tables [model], [optimizer], "
                                        "[schedule], [data]",
                                        name)
                          : fmt::format("{} is no text, number, true or false, nor an array of such", name));
}

ConfigEntry entry_of(const std::string& table, const std::string& name, const toml::node& value,
                     const std::string& path) {
  const std::string whole = table.empty() ? name : table + "." + name;
  ConfigEntry entry{table, name, {}, value.is_boolean()};
  if (const toml::array* all = value.as_array()) {
    if (all->empty()) refuse(path, value.source(), whole + " is an empty array; leave it out");
    for (const toml::node& element : *all) entry.values.push_back(text_of(element, path, whole));
  } else {
    entry.values.push_back(text_of(value, path, whole));
  }
  return entry;
}

}  // namespace

std::vector<ConfigEntry> read_config(std::istream& config, const std::string& path) {
  toml::table parsed;
  try {
    parsed = toml::parse(config);
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    if (what.ends_with("as table")) what += "; in a table, the thing's own name is its entry 'name'";
    refuse(path, error.source(), what);
  } catch (const UnknownForm&) {
    throw ValueError(
        fmt::format("--config {}: it is no TOML; expected a name = value on each line, and tables whose header is one "
                    "line: [model]",
                    path));
  }
  std::vector<ConfigEntry> entries;
  for (const auto& [key, value] : parsed) {
    const std::string name(key.str());
    if (const toml::table* table = value.as_table()) {
      for (const auto& [inner, element] : *table) {
        entries.push_back(entry_of(name, std::string(inner.str()), element, path));
      }
    } else {
      entries.push_back(entry_of("", name, value, path));
    }
  }
  return entries;
}

std::string config_value(const std::string& text) {
  const bool is_one_word = text.find_first_of("# \t\r\n") == std::string::npos;  // 5 # x reads as 5
  try {
    const toml::table parsed = toml::parse("x = " + text);
    const toml::node& value = *parsed.get("x");
    if (is_one_word && (value.is_number() || value.is_boolean())) return text;
  } catch (const toml::parse_error&) {
    // A text.
  } catch (const UnknownForm&) {
    // As well.
  }
  std::ostringstream quoted;
  quoted << toml::toml_formatter(toml::value<std::string>(text), toml::format_flags::none);
  return quoted.str();
}

}  // namespace lockstep::cli
