#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include <lockstep/export.h>
#include <lockstep/tree.h>

namespace lockstep {

namespace detail {
/// Throws ValueError: the name is given twice.
[[noreturn]] LOCKSTEP_API void refuse_repeated_name(const std::string& name);
}  // namespace detail

/// Values by name, as options take them: a std::map, but where it is written out, `{{"a", x}, {"b", y}}`, a name that is
/// given twice is a ValueError instead of a value lost.
template <class T>
class Named : public std::map<std::string, T> {
 public:
  using Map = std::map<std::string, T>;

  Named();
  Named(const Named& other);
  Named(Named&& other) noexcept;
  Named& operator=(const Named& other);
  Named& operator=(Named&& other) noexcept;
  ~Named();
  Named(Map values);  // NOLINT: implicit by design
  Named(std::initializer_list<std::pair<const std::string, T>> values);
};

// Outside of the class, so that they are no inline functions: those of common values are made once, in the library.
template <class T>
Named<T>::Named() = default;
template <class T>
Named<T>::Named(const Named& other) = default;
template <class T>
Named<T>::Named(Named&& other) noexcept = default;
template <class T>
Named<T>& Named<T>::operator=(const Named& other) = default;
template <class T>
Named<T>& Named<T>::operator=(Named&& other) noexcept = default;
template <class T>
Named<T>::~Named() = default;
template <class T>
Named<T>::Named(Map values) : Map(std::move(values)) {}
template <class T>
Named<T>::Named(std::initializer_list<std::pair<const std::string, T>> values) {
  for (const auto& value : values) {
    if (!this->insert(value).second) detail::refuse_repeated_name(value.first);
  }
}

extern template class LOCKSTEP_API Named<std::string>;
extern template class LOCKSTEP_API Named<double>;

template <class T>
struct TreeTraits<Named<T>> {
  static Tree to_tree(typename Named<T>::Map values) {
    return TreeTraits<typename Named<T>::Map>::to_tree(std::move(values));
  }
  static Named<T> from_tree(Tree tree) { return TreeTraits<typename Named<T>::Map>::from_tree(std::move(tree)); }
};

}  // namespace lockstep
