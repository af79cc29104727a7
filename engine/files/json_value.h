#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/export.h>

namespace lockstep::json {

/// What becomes of text that is no UTF-8.
enum class Utf8 { strict, replaced };

/// A value as JSON has it: null, a truth value, a number, a text, a list, or entries by their names, which are sorted. The
/// engine reads and writes JSON by this one type, since its destructor takes no memory and so cannot end the process where
/// there is none, as that of nlohmann::json does. It moves and does not copy.
class LOCKSTEP_API Value {
 public:
  using List = std::vector<Value>;
  using Entries = std::map<std::string, Value, std::less<>>;

  Value() = default;
  Value(const char* text) : held_(std::string(text)) {}
  Value(std::string text) : held_(std::move(text)) {}
  Value(std::string_view text) : held_(std::string(text)) {}
  Value(double number) : held_(number) {}
  template <std::integral T>
  Value(T number) : held_(held(number)) {}
  template <class T>
  Value(const std::vector<T>& items) : held_(List(items.begin(), items.end())) {}
  static Value list() { return Value(Held(List())); }
  static Value object() { return Value(Held(Entries())); }

  Value(Value&&) noexcept = default;
  Value& operator=(Value&&) noexcept = default;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value() = default;

  bool is_null() const { return std::holds_alternative<std::monostate>(held_); }
  std::optional<bool> boolean() const;
  /// A number that is whole, within 64 bits with a sign; another is none, and so is 1.0.
  std::optional<std::int64_t> integer() const;
  /// A number that is whole and not negative, within 64 bits.
  std::optional<std::uint64_t> whole() const;
  /// Any number.
  std::optional<double> number() const;
  /// Null where it is no text, no list, no entries.
  const std::string* text() const { return std::get_if<std::string>(&held_); }
  const List* items() const { return std::get_if<List>(&held_); }
  List* items() { return std::get_if<List>(&held_); }
  const Entries* entries() const { return std::get_if<Entries>(&held_); }
  Entries* entries() { return std::get_if<Entries>(&held_); }
  /// The entry of a name; null where there is none, or this is no entries.
  const Value* find(std::string_view name) const;
  Value* find(std::string_view name);
  /// "null", "boolean", "number", "string", "array" or "object".
  std::string_view type_name() const;

  /// The entry of a name, which is made where there is none; what was null becomes entries.
  Value& operator[](std::string_view name);
  /// One item more; what was null becomes a list.
  void push_back(Value item);

  /// On one line without blanks, or with each item on a line of its own and so many blanks for each level. Throws DataError
  /// for text that is no UTF-8, unless that is `replaced` by U+FFFD.
  std::string to_string(std::optional<std::size_t> indent = std::nullopt, Utf8 utf8 = Utf8::strict) const;

 private:
  using Held = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List, Entries>;
  explicit Value(Held held) : held_(std::move(held)) {}

  /// Whole numbers have one form, so that equal ones are found equal: uint64_t for those beyond int64_t alone.
  template <std::integral T>
  static Held held(T number) {
    if constexpr (std::same_as<T, bool>) {
      return number;
    } else {
      if (std::in_range<std::int64_t>(number)) return static_cast<std::int64_t>(number);
      return static_cast<std::uint64_t>(number);
    }
  }

  Held held_;
};

}  // namespace lockstep::json
