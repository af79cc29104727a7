#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/owned.h>
#include <lockstep/types.h>

namespace lockstep {

/// A structured attribute: in practice a sub-function.
class LOCKSTEP_API AttrObject {
 public:
  virtual ~AttrObject();
  virtual std::uint64_t hash() const = 0;
  virtual bool equals(const AttrObject& other) const = 0;
  virtual std::string print(int indent) const = 0;  ///< As text of a program, indented.
};

using AttrValue = std::variant<bool, std::int64_t, double, std::string, DType, std::vector<std::int64_t>,
                               std::vector<std::string>, std::vector<std::vector<std::int64_t>>,
                               std::vector<std::vector<std::string>>, std::shared_ptr<const AttrObject>>;

namespace detail {
/// A template, so that a file which makes no attributes does not make what a value may be.
template <class Value>
struct NamedValue {
  std::string name;
  Value value;
};
}  // namespace detail

/// The static parameters of an equation: a map that compares, hashes and prints alike for every op. Copies share it.
class LOCKSTEP_API Attrs {
 public:
  using Entry = detail::NamedValue<AttrValue>;

  Attrs() = default;
  Attrs(std::initializer_list<Entry> entries);

  bool empty() const { return shared_ == nullptr; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const AttrValue* find(std::string_view name) const;
  /// Throws IrError naming the attribute where it is absent or of another kind.
  const AttrValue& at(std::string_view name) const;
  template <class T>
  const T& get(std::string_view name) const {
    const T* value = std::get_if<T>(&at(name));
    if (value == nullptr) wrong_kind(name);
    return *value;
  }
  template <class T>
  T get_or(std::string_view name, T fallback) const {
    return has(name) ? get<T>(name) : fallback;
  }
  Attrs with(std::string_view name, AttrValue value) const;
  Attrs without(std::string_view name) const;
  const std::vector<Entry>& entries() const;

  std::uint64_t hash() const;
  bool operator==(const Attrs& other) const;

 private:
  struct Shared;

  static Attrs of(std::vector<Entry> sorted);
  [[noreturn]] void wrong_kind(std::string_view name) const;

  detail::SharedObject<const Shared> shared_;  // null where there is no entry
};

/// "axes=[0,1] keep=true".
LOCKSTEP_API std::string to_string(const Attrs& attrs);
LOCKSTEP_API std::string to_string(const AttrValue& value);  ///< "[0,1]", "true", ...

}  // namespace lockstep
