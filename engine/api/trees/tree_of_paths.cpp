// A tree made of many paths at once.
#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/tree_of_paths.h>

namespace lockstep {
namespace {

/// What is at a path: a tree that was given, or what lies below.
struct Place {
  std::map<std::string, Place> below;
  const std::pair<std::string, Tree>* given = nullptr;
};

/// The key that a part of a path stands for.
std::string key_of_part(std::string_view part) {
  if (part.find('~') == part.npos) return std::string(part);
  return Tree().with(part, Tree()).entries().begin()->first;
}

Tree tree_at(const Place& place) {
  if (place.given != nullptr) return place.given->second;
  std::map<std::string, Tree> entries;
  for (const auto& [key, inner] : place.below) entries.emplace_hint(entries.end(), key, tree_at(inner));
  return Tree::dict(std::move(entries));
}

[[noreturn]] void refuse_both(const std::string& a, const std::string& b) {
  throw StateError(
      fmt::format("tree: \"{}\" and \"{}\" are no paths of one tree; give each once, and none below another", a, b));
}

/// Any that was given below.
const std::string& first_below(const Place& place) {
  return place.given != nullptr ? place.given->first : first_below(place.below.begin()->second);
}

}  // namespace

Tree tree_of_paths(std::vector<std::pair<std::string, Tree>> entries) {
  Place top;
  for (const auto& entry : entries) {
    Place* place = &top;
    for (std::string_view rest = entry.first; !rest.empty();) {
      if (place->given != nullptr) refuse_both(place->given->first, entry.first);
      const std::size_t slash = std::min(rest.find('/'), rest.size());
      place = &place->below[key_of_part(rest.substr(0, slash))];
      rest.remove_prefix(std::min(slash + 1, rest.size()));
    }
    if (place->given != nullptr || !place->below.empty()) refuse_both(first_below(*place), entry.first);
    place->given = &entry;
  }
  return tree_at(top);
}

}  // namespace lockstep
