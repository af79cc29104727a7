#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/layout_map.h>

#include "engine/core/text/text_pattern.h"

namespace lockstep {

namespace {

std::vector<detail::TextPattern> compiled_rules(const std::vector<LayoutMap::Rule>& rules) {
  std::vector<detail::TextPattern> compiled;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    compiled.push_back(detail::TextPattern::of_paths("layout map", rules[i].pattern, ".*/kernel"));
    const bool is_repeated = std::any_of(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(i),
                                         [&](const auto& rule) { return rule.pattern == rules[i].pattern; });
    if (!is_repeated) continue;
    throw ValueError(fmt::format("layout map: \"{}\" stands there twice; expected each pattern once; leave one out",
                                 rules[i].pattern));
  }
  return compiled;
}

}  // namespace

struct LayoutMap::Rules {
  std::vector<Rule> by_pattern;
  std::vector<detail::TextPattern> patterns;  ///< The rules', compiled.
  std::optional<Layout> all;
};

LayoutMap::LayoutMap() = default;
LayoutMap::LayoutMap(const LayoutMap& other) = default;
LayoutMap::LayoutMap(LayoutMap&& other) noexcept = default;
LayoutMap& LayoutMap::operator=(const LayoutMap& other) = default;
LayoutMap& LayoutMap::operator=(LayoutMap&& other) noexcept = default;
LayoutMap::~LayoutMap() = default;
LayoutMap::LayoutMap(Layout all) : rules_(std::make_shared<const Rules>(Rules{{}, {}, std::move(all)})) {}

LayoutMap::LayoutMap(std::initializer_list<Rule> rules) : LayoutMap(std::vector<Rule>(rules)) {}

bool LayoutMap::holds_for_all() const { return rules_ && rules_->all.has_value(); }

const std::vector<LayoutMap::Rule>& LayoutMap::rules() const {
  static const std::vector<Rule> none;
  return rules_ ? rules_->by_pattern : none;
}

LayoutMap::LayoutMap(std::vector<Rule> rules) {
  std::vector<detail::TextPattern> patterns = compiled_rules(rules);
  rules_ = std::make_shared<const Rules>(Rules{std::move(rules), std::move(patterns), {}});
}

std::optional<std::size_t> LayoutMap::find(std::string_view path) const {
  const std::vector<Rule>& all = rules();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].pattern == path) return i;
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!rules_->patterns[i].matches(path)) continue;
    if (found) {
      throw MeshError(fmt::format(
          "layout map: \"{}\" matches multiple layouts: those of \"{}\" and of \"{}\"; expected one pattern "
          "that matches all of the path; narrow one of them, or add the path itself, which goes before "
          "patterns",
          path, all[*found].pattern, all[i].pattern));
    }
    found = i;
  }
  return found;
}

Layout LayoutMap::at(std::string_view path) const {
  if (holds_for_all()) return *rules_->all;
  const std::optional<std::size_t> rule = find(path);
  return rule ? rules()[*rule].layout : Layout();
}

template class detail::OutOfLine<std::vector<LayoutMap>>;

}  // namespace lockstep
