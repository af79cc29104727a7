#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include <lockstep/attrs.h>
#include <lockstep/error.h>

#include "engine/core/join.h"
#include "engine/core/quoting.h"
#include "engine/core/stable_hash.h"

namespace lockstep {

AttrObject::~AttrObject() = default;

namespace {

using Ints = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;
using Object = std::shared_ptr<const AttrObject>;

constexpr std::array<std::string_view, std::variant_size_v<AttrValue>> kind_names = {"bool",
                                                                                     "int",
                                                                                     "double",
                                                                                     "string",
                                                                                     "dtype",
                                                                                     "int list",
                                                                                     "string list",
                                                                                     "list of int lists",
                                                                                     "list of string lists",
                                                                                     "function"};

// ---- equality: bits for doubles (so that NaN equals itself and -0 differs from 0), structure for functions

bool same(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a)) {
    return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(std::get<double>(b));
  }
  if (const auto* x = std::get_if<Object>(&a)) {
    const auto& y = std::get<Object>(b);
    return *x == y || (*x != nullptr && y != nullptr && (*x)->hash() == y->hash() && (*x)->equals(*y));
  }
  return a == b;
}

// ---- hash

struct AddToHash {
  StableHash& hash;

  void operator()(bool value) const { hash.add(value ? 1U : 0U); }
  void operator()(std::int64_t value) const { hash.add(static_cast<std::uint64_t>(value)); }
  void operator()(double value) const { hash.add(std::bit_cast<std::uint64_t>(value)); }
  void operator()(const std::string& value) const { hash.add(std::string_view(value)); }
  void operator()(DType value) const { hash.add(static_cast<std::uint64_t>(value)); }
  void operator()(const Object& value) const { hash.add(value == nullptr ? 0 : value->hash()); }
  template <class T>
  void operator()(const std::vector<T>& list) const {
    hash.add(list.size());
    for (const T& item : list) (*this)(item);
  }
};

// ---- text: every kind has a form of its own, so that `parse` gives the same kind back

std::string print_double(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  if (std::isnan(value)) {
    const std::string sign = std::signbit(value) ? "-" : "";
    constexpr std::uint64_t quiet = 0x7ff8000000000000U;
    const std::uint64_t payload = bits & 0x7fffffffffffffffU;
    return payload == quiet ? sign + "nan" : sign + "nan:" + std::to_string(payload);
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  std::string digits(text.data(), result.ptr);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

std::string print_words(const Strings& list) {
  std::string text = "{";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ",") + quoted_unless_bare(list[i]);
  return text + "}";
}

struct Print {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return print_double(value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(DType value) const { return std::string(short_name(value)); }
  std::string operator()(const Ints& list) const { return "[" + join(list, ",") + "]"; }
  std::string operator()(const Strings& list) const {
    const bool bare =
        !list.empty() && std::ranges::all_of(list, is_bare_word) && std::ranges::none_of(list, is_reserved_word);
    return bare ? join(list, ",") : print_words(list);
  }
  std::string operator()(const std::vector<Ints>& lists) const {
    std::string text = "(";
    for (std::size_t i = 0; i < lists.size(); ++i) text += (i == 0 ? "" : ",") + (*this)(lists[i]);
    return text + ")";
  }
  std::string operator()(const std::vector<Strings>& lists) const {
    if (lists.empty()) return "{()}";
    std::string text = "(";
    for (std::size_t i = 0; i < lists.size(); ++i) text += (i == 0 ? "" : ",") + print_words(lists[i]);
    return text + ")";
  }
  std::string operator()(const Object& value) const { return value == nullptr ? "null" : value->print(0); }
};

bool before(const Attrs::Entry& entry, std::string_view name) { return entry.name < name; }

}  // namespace

namespace {

std::uint64_t hash_of(const std::vector<Attrs::Entry>& entries) {
  StableHash hash;
  hash.add(entries.size());
  for (const Attrs::Entry& entry : entries) {
    hash.add(std::string_view(entry.name));
    hash.add(entry.value.index());
    std::visit(AddToHash{hash}, entry.value);
  }
  return hash.value();
}

/// A copy that says where there is no memory: copying a std::variant of texts and lists ends the process then (libstdc++
/// 12 takes such a variant for one that always holds a value, and destroys what was never made).
AttrValue copy_of(const AttrValue& value) {
  return std::visit([](const auto& held) { return AttrValue(std::in_place_type<std::decay_t<decltype(held)>>, held); },
                    value);
}

std::vector<Attrs::Entry> copies_of(std::span<const Attrs::Entry> entries) {
  std::vector<Attrs::Entry> copies;
  copies.reserve(entries.size() + 1);
  for (const Attrs::Entry& entry : entries) copies.push_back({entry.name, copy_of(entry.value)});
  return copies;
}

std::vector<Attrs::Entry> sorted(std::vector<Attrs::Entry> entries) {
  std::ranges::sort(entries, {}, &Attrs::Entry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &Attrs::Entry::name);
  if (twice != entries.end()) throw IrError("attributes: " + quoted(twice->name) + " is given twice");
  return entries;
}

}  // namespace

struct Attrs::Shared {
  std::vector<Entry> entries;  // sorted by name
  std::uint64_t hash;
};

Attrs::Attrs(std::initializer_list<Entry> entries) : Attrs(of(sorted(copies_of({entries.begin(), entries.size()})))) {}

Attrs Attrs::of(std::vector<Entry> sorted) {
  Attrs result;
  if (sorted.empty()) return result;
  const std::uint64_t hash = hash_of(sorted);
  result.shared_ = std::make_shared<const Shared>(Shared{std::move(sorted), hash});
  return result;
}

const std::vector<Attrs::Entry>& Attrs::entries() const {
  static const std::vector<Entry> none;
  return shared_ == nullptr ? none : shared_->entries;
}

const AttrValue* Attrs::find(std::string_view name) const {
  const auto place = std::lower_bound(entries().begin(), entries().end(), name, before);
  return place != entries().end() && place->name == name ? &place->value : nullptr;
}

const AttrValue& Attrs::at(std::string_view name) const {
  const AttrValue* value = find(name);
  if (value != nullptr) return *value;
  throw IrError("attribute " + quoted(name) + " is missing; given are [" + to_string(*this) + "]");
}

void Attrs::wrong_kind(std::string_view name) const {
  const AttrValue& value = at(name);
  throw IrError("attribute " + std::string(name) + "=" + to_string(value) + " is of kind " +
                std::string(kind_names[value.index()]) + ", which is not the kind this op reads");
}

Attrs Attrs::with(std::string_view name, AttrValue value) const {
  std::vector<Entry> changed = copies_of(entries());
  const auto place = std::lower_bound(changed.begin(), changed.end(), name, before);
  if (place != changed.end() && place->name == name) {
    place->value = std::move(value);
  } else {
    changed.insert(place, Entry{std::string(name), std::move(value)});
  }
  return of(std::move(changed));
}

Attrs Attrs::without(std::string_view name) const {
  std::vector<Entry> changed = copies_of(entries());
  std::erase_if(changed, [&](const Entry& entry) { return entry.name == name; });
  return of(std::move(changed));
}

std::uint64_t Attrs::hash() const {
  static const std::uint64_t of_none = hash_of({});
  return shared_ == nullptr ? of_none : shared_->hash;
}

bool Attrs::operator==(const Attrs& other) const {
  if (shared_ == other.shared_) return true;
  return hash() == other.hash() && std::ranges::equal(entries(), other.entries(), [](const Entry& a, const Entry& b) {
           return a.name == b.name && same(a.value, b.value);
         });
}

std::string to_string(const AttrValue& value) { return std::visit(Print{}, value); }

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const Attrs::Entry& entry : attrs.entries()) {
    if (!text.empty()) text += ' ';
    text += entry.name + "=" + to_string(entry.value);
  }
  return text;
}

}  // namespace lockstep
