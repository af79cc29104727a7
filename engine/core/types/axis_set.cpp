#include <algorithm>
#include <iterator>

#include <lockstep/types.h>

#include "engine/core/quoting.h"

namespace lockstep {

AxisSet::AxisSet(std::initializer_list<std::string> names) : AxisSet(std::vector<std::string>(names)) {}

AxisSet::AxisSet(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (!names.empty()) names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
}

const std::vector<std::string>& AxisSet::names() const {
  static const std::vector<std::string> none;
  return names_ == nullptr ? none : *names_;
}

std::size_t AxisSet::size() const { return names().size(); }
const std::string* AxisSet::begin() const { return names().data(); }
const std::string* AxisSet::end() const { return names().data() + names().size(); }
bool AxisSet::has_same_names(const AxisSet& other) const { return names() == other.names(); }

bool AxisSet::contains(std::string_view name) const { return std::binary_search(begin(), end(), name); }

bool AxisSet::contains(const AxisSet& other) const { return std::includes(begin(), end(), other.begin(), other.end()); }

AxisSet AxisSet::joined(const AxisSet& other) const {
  if (contains(other)) return *this;
  if (empty()) return other;
  std::vector<std::string> all;
  std::set_union(begin(), end(), other.begin(), other.end(), std::back_inserter(all));
  return AxisSet(std::move(all));
}

AxisSet AxisSet::without(const AxisSet& other) const {
  if (empty() || other.empty()) return *this;
  std::vector<std::string> rest;
  std::set_difference(begin(), end(), other.begin(), other.end(), std::back_inserter(rest));
  return AxisSet(std::move(rest));
}

std::string to_string(const AxisSet& axes) {
  std::string text;
  for (const std::string& name : axes) {
    if (!text.empty()) text += ',';
    text += quoted_unless_bare(name);
  }
  return text;
}

}  // namespace lockstep
