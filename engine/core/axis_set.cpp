#include <algorithm>
#include <iterator>

#include <lockstep/types.h>

#include "engine/core/quoting.h"

namespace lockstep {

AxisSet::AxisSet(std::initializer_list<std::string> names) : AxisSet(std::vector<std::string>(names)) {}

AxisSet::AxisSet(std::vector<std::string> names) : names_(std::move(names)) {
  std::sort(names_.begin(), names_.end());
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
}

bool AxisSet::contains(std::string_view name) const { return std::binary_search(begin(), end(), name); }

bool AxisSet::contains(const AxisSet& other) const { return std::includes(begin(), end(), other.begin(), other.end()); }

AxisSet AxisSet::joined(const AxisSet& other) const {
  AxisSet result;
  std::set_union(begin(), end(), other.begin(), other.end(), std::back_inserter(result.names_));
  return result;
}

AxisSet AxisSet::without(const AxisSet& other) const {
  AxisSet result;
  std::set_difference(begin(), end(), other.begin(), other.end(), std::back_inserter(result.names_));
  return result;
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
