#include "engine/cli/named_options.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

namespace lockstep::cli {
NamedOptions::NamedOptions(std::string_view of, const std::map<std::string, std::string>& all) : of_(of) {
  const std::string prefix = of_ + ".";
  for (const auto& [name, text] : all) {
    if (name.starts_with(prefix)) given_.emplace(name.substr(prefix.size()), text);
  }
}

template <class T>
T NamedOptions::parsed(const std::string& name, T otherwise, const char* kind) {
  known_.push_back(name);
  const auto found = given_.find(name);
  if (found == given_.end()) return otherwise;
  const std::optional<T> value = number_in<T>(found->second);
  if (!value) throw ValueError(fmt::format("{}.{} is '{}'; expected {}", of_, name, found->second, kind));
  return *value;
}

double NamedOptions::number(const std::string& name, double otherwise) { return parsed(name, otherwise, "a number"); }

std::int64_t NamedOptions::integer(const std::string& name, std::int64_t otherwise) {
  return parsed(name, otherwise, "an integer");
}

std::int64_t NamedOptions::count(const std::string& name, std::int64_t otherwise) {
  const std::int64_t value = integer(name, otherwise);
  if (value < 1) throw ValueError(fmt::format("{}.{} is {}; it must be at least 1", of_, name, value));
  return value;
}

bool NamedOptions::flag(const std::string& name, bool otherwise) {
  const std::string text = word(name, otherwise ? "true" : "false");
  if (text != "true" && text != "false") {
    throw ValueError(fmt::format("{}.{} is '{}'; expected true or false", of_, name, text));
  }
  return text == "true";
}

std::string NamedOptions::word(const std::string& name, const std::string& otherwise) {
  known_.push_back(name);
  const auto found = given_.find(name);
  return found == given_.end() ? otherwise : found->second;
}

std::vector<std::int64_t> NamedOptions::integers(const std::string& name, const std::vector<std::int64_t>& otherwise) {
  known_.push_back(name);
  const auto found = given_.find(name);
  if (found == given_.end()) return otherwise;
  const std::string& text = found->second;
  std::vector<std::int64_t> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const auto value = number_in<std::int64_t>(std::string_view(text).substr(begin, comma - begin));
    if (!value) throw ValueError(fmt::format("{}.{} is '{}'; expected integers between commas", of_, name, text));
    values.push_back(*value);
    begin = comma + 1;
  }
  return values;
}

void NamedOptions::check_all_taken(const std::string& what) const {
  for (const auto& [name, text] : given_) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    const std::set<std::string> known(known_.begin(), known_.end());
    const std::string list = known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "));
    throw ValueError(fmt::format("{} has no option '{}'; it has {}", what, name, list));
  }
}

}  // namespace lockstep::cli
