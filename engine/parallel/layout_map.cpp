#include <algorithm>
#include <regex>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/layout_map.h>

namespace lockstep {

namespace {

std::regex compiled_pattern(const std::string& pattern) {
  try {
    return std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw ValueError(fmt::format(
        "layout map: \"{}\" is no regular expression ({}); expected a path or a pattern that matches all of one; write "
        "for example \".*/kernel\"",
        pattern, error.what()));
  }
}

void check_rules(const std::vector<LayoutMap::Rule>& rules) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    compiled_pattern(rules[i].pattern);
    const bool is_repeated = std::any_of(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(i),
                                         [&](const auto& rule) { return rule.pattern == rules[i].pattern; });
    if (!is_repeated) continue;
    throw ValueError(fmt::format("layout map: \"{}\" stands there twice; expected each pattern once; leave one out",
                                 rules[i].pattern));
  }
}

}  // namespace

LayoutMap::LayoutMap() = default;
LayoutMap::LayoutMap(const LayoutMap& other) = default;
LayoutMap::LayoutMap(LayoutMap&& other) noexcept = default;
LayoutMap& LayoutMap::operator=(const LayoutMap& other) = default;
LayoutMap& LayoutMap::operator=(LayoutMap&& other) noexcept = default;
LayoutMap::~LayoutMap() = default;
LayoutMap::LayoutMap(Layout all) : all_(std::move(all)) {}

LayoutMap::LayoutMap(std::initializer_list<Rule> rules) : LayoutMap(std::vector<Rule>(rules)) {}

bool LayoutMap::holds_for_all() const { return all_.has_value(); }

LayoutMap::LayoutMap(std::vector<Rule> rules) : rules_(std::move(rules)) { check_rules(rules_); }

std::optional<std::size_t> LayoutMap::find(std::string_view path) const {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].pattern == path) return i;
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!std::regex_match(path.begin(), path.end(), compiled_pattern(rules_[i].pattern))) continue;
    if (found) {
      throw MeshError(fmt::format(
          "layout map: \"{}\" matches multiple layouts: those of \"{}\" and of \"{}\"; expected one pattern "
          "that matches all of the path; narrow one of them, or add the path itself, which goes before "
          "patterns",
          path, rules_[*found].pattern, rules_[i].pattern));
    }
    found = i;
  }
  return found;
}

Layout LayoutMap::at(std::string_view path) const {
  if (all_) return *all_;
  const std::optional<std::size_t> rule = find(path);
  return rule ? rules_[*rule].layout : Layout();
}

template class detail::OutOfLine<std::vector<LayoutMap>>;

}  // namespace lockstep
