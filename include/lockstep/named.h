#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/tree.h>

namespace lockstep {

/// Values by name, as options take them: a std::map, but where it is written out, `{{"a", x}, {"b", y}}`, a name that is
/// given twice is a ValueError instead of a value lost.
template <class T>
class Named : public std::map<std::string, T> {
 public:
  using Map = std::map<std::string, T>;

  Named() = default;
  Named(Map values) : Map(std::move(values)) {}  // NOLINT: implicit by design
  Named(std::initializer_list<std::pair<const std::string, T>> values) {
    for (const auto& [name, value] : values) {
      if (this->emplace(name, value).second) continue;
      throw ValueError("the name \"" + name + "\" is given twice; give each name once, or one of its values is lost");
    }
  }
};

template <class T>
struct TreeTraits<Named<T>> {
  static Tree to_tree(typename Named<T>::Map values) {
    return TreeTraits<typename Named<T>::Map>::to_tree(std::move(values));
  }
  static Named<T> from_tree(Tree tree) { return TreeTraits<typename Named<T>::Map>::from_tree(std::move(tree)); }
};

}  // namespace lockstep
