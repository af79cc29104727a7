#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep {

/// A static value inside a tree: part of a function's identity, never traced.
using StaticValue = std::variant<bool, std::int64_t, double, std::string>;

/// Nested containers of arrays (a pytree): a leaf, a static value, nothing, a list, or a dict ordered by key.
class LOCKSTEP_API Tree {
 public:
  enum class Kind : std::uint8_t { none, leaf, fixed, list, dict };

  Tree();            ///< None.
  Tree(Array leaf);  // NOLINT: implicit by design
  explicit Tree(StaticValue value);
  static Tree list(std::vector<Tree> items);
  static Tree dict(std::map<std::string, Tree> items);

  Kind kind() const { return kind_; }
  bool is_leaf() const { return kind_ == Kind::leaf; }
  /// The leaf's array. Throws StateError naming the kind otherwise.
  const Array& array() const;
  const StaticValue& fixed() const;
  const std::vector<Tree>& items() const;              ///< Of a list.
  const std::map<std::string, Tree>& entries() const;  ///< Of a dict.

  /// The sub-tree at "conv/kernel" (dict keys and list indices). Throws StateError with the nearest paths that exist.
  const Tree& at(std::string_view path) const;
  bool contains(std::string_view path) const;
  /// This tree with the sub-tree at `path` set; dicts on the way come to be. None counts as an empty dict.
  Tree with(std::string_view path, Tree value) const;

  /// Number of leaves.
  std::size_t size() const;
  /// Leaves in order of path.
  std::vector<Array> leaves() const;
  /// Leaves moved out, so that a sole owner can donate them.
  std::vector<Array> take_leaves() &&;
  /// One path a leaf, "conv/kernel"; "" for a single leaf.
  std::vector<std::string> paths() const;
  /// The same structure over other leaves. Throws StateError if the count differs.
  Tree unflatten(std::vector<Array> leaves) const;
  /// The structure: kinds, keys and static values, no arrays. Equal text means equal structure.
  std::string structure() const;
  std::uint64_t structure_hash() const;
  bool same_structure(const Tree& other) const;

 private:
  Kind kind_ = Kind::none;
  Array leaf_;
  StaticValue fixed_ = false;
  std::vector<Tree> items_;
  std::map<std::string, Tree> entries_;
};

/// `function` on every leaf, in order of path.
LOCKSTEP_API Tree map(const std::function<Array(const Array&)>& function, const Tree& tree);
/// `function` on corresponding leaves. Throws StateError naming the first path at which the structures differ.
LOCKSTEP_API Tree map(const std::function<Array(const Array&, const Array&)>& function, const Tree& a, const Tree& b);
/// `function(path, leaf)`.
LOCKSTEP_API Tree map_with_path(const std::function<Array(const std::string&, const Array&)>& function,
                                const Tree& tree);
/// Throws StateError naming the first missing, surplus or misshapen leaf by path; `what` says which tree is meant.
LOCKSTEP_API void check_same_types(const Tree& expected, const Tree& given, std::string_view what);
LOCKSTEP_API std::string to_string(const Tree& tree);

// ---- C++ types as trees ---------------------------------------------------------------------------------------------

template <class T>
struct TreeTraits;

template <class T>
Tree to_tree(const T& value) {
  return TreeTraits<std::remove_cvref_t<T>>::to_tree(value);
}
/// Consumes the value, so that its arrays keep a single owner.
template <class T>
requires(!std::is_lvalue_reference_v<T>) Tree to_tree(T&& value) {
  return TreeTraits<std::remove_cvref_t<T>>::to_tree(std::move(value));
}
template <class T>
T from_tree(const Tree& tree) {
  return TreeTraits<T>::from_tree(tree);
}

template <>
struct TreeTraits<Array> {
  static Tree to_tree(Array value) { return Tree(std::move(value)); }
  static Array from_tree(const Tree& tree) { return tree.array(); }
};
template <>
struct TreeTraits<Tree> {
  static Tree to_tree(Tree value) { return value; }
  static Tree from_tree(const Tree& tree) { return tree; }
};
template <class T>
requires std::is_arithmetic_v<T>
struct TreeTraits<T> {
  static Tree to_tree(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return Tree(StaticValue(value));
    } else if constexpr (std::is_integral_v<T>) {
      return Tree(StaticValue(static_cast<std::int64_t>(value)));
    } else {
      return Tree(StaticValue(static_cast<double>(value)));
    }
  }
  static T from_tree(const Tree& tree) {
    return std::visit(
        [](const auto& v) -> T {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>) {
            return T{};
          } else {
            return static_cast<T>(v);
          }
        },
        tree.fixed());
  }
};
template <>
struct TreeTraits<std::string> {
  static Tree to_tree(std::string value) { return Tree(StaticValue(std::move(value))); }
  static std::string from_tree(const Tree& tree) { return std::get<std::string>(tree.fixed()); }
};
template <class T>
struct TreeTraits<std::vector<T>> {
  static Tree to_tree(std::vector<T> value) {
    std::vector<Tree> items;
    items.reserve(value.size());
    for (T& item : value) items.push_back(TreeTraits<T>::to_tree(std::move(item)));
    return Tree::list(std::move(items));
  }
  static std::vector<T> from_tree(const Tree& tree) {
    std::vector<T> value;
    for (const Tree& item : tree.items()) value.push_back(TreeTraits<T>::from_tree(item));
    return value;
  }
};
template <class T>
struct TreeTraits<std::map<std::string, T>> {
  static Tree to_tree(std::map<std::string, T> value) {
    std::map<std::string, Tree> entries;
    for (auto& [key, item] : value) entries.emplace(key, TreeTraits<T>::to_tree(std::move(item)));
    return Tree::dict(std::move(entries));
  }
  static std::map<std::string, T> from_tree(const Tree& tree) {
    std::map<std::string, T> value;
    for (const auto& [key, item] : tree.entries()) value.emplace(key, TreeTraits<T>::from_tree(item));
    return value;
  }
};
template <class T>
struct TreeTraits<std::optional<T>> {
  static Tree to_tree(std::optional<T> value) { return value ? TreeTraits<T>::to_tree(std::move(*value)) : Tree(); }
  static std::optional<T> from_tree(const Tree& tree) {
    if (tree.kind() == Tree::Kind::none) return std::nullopt;
    return TreeTraits<T>::from_tree(tree);
  }
};
template <class... Ts>
struct TreeTraits<std::tuple<Ts...>> {
  static Tree to_tree(std::tuple<Ts...> value) {
    return std::apply([](Ts&... items) { return Tree::list({TreeTraits<Ts>::to_tree(std::move(items))...}); }, value);
  }
  static std::tuple<Ts...> from_tree(const Tree& tree) {
    return from_items(tree.items(), std::index_sequence_for<Ts...>{});
  }

 private:
  template <std::size_t... I>
  static std::tuple<Ts...> from_items(const std::vector<Tree>& items, std::index_sequence<I...>) {
    return {TreeTraits<Ts>::from_tree(items.at(I))...};
  }
};
template <class A, class B>
struct TreeTraits<std::pair<A, B>> {
  static Tree to_tree(std::pair<A, B> value) {
    return Tree::list(
        {TreeTraits<A>::to_tree(std::move(value.first)), TreeTraits<B>::to_tree(std::move(value.second))});
  }
  static std::pair<A, B> from_tree(const Tree& tree) {
    return {TreeTraits<A>::from_tree(tree.items().at(0)), TreeTraits<B>::from_tree(tree.items().at(1))};
  }
};

/// A struct declared with LOCKSTEP_TREE: a dict of its named members.
template <class T>
concept TreeStruct = requires(T& value) {
  lockstep_visit_members(value, [](const char*, auto&) {});
};

template <TreeStruct T>
struct TreeTraits<T> {
  static Tree to_tree(T value) {
    std::map<std::string, Tree> entries;
    lockstep_visit_members(value, [&](const char* name, auto& member) {
      entries.emplace(name, TreeTraits<std::remove_cvref_t<decltype(member)>>::to_tree(std::move(member)));
    });
    return Tree::dict(std::move(entries));
  }
  static T from_tree(const Tree& tree) {
    T value{};
    lockstep_visit_members(value, [&](const char* name, auto& member) {
      member = TreeTraits<std::remove_cvref_t<decltype(member)>>::from_tree(tree.at(name));
    });
    return value;
  }
};

}  // namespace lockstep

#define LOCKSTEP_TREE_PARENS ()
#define LOCKSTEP_TREE_EXPAND(...) \
  LOCKSTEP_TREE_EXPAND2(LOCKSTEP_TREE_EXPAND2(LOCKSTEP_TREE_EXPAND2(LOCKSTEP_TREE_EXPAND2(__VA_ARGS__))))
#define LOCKSTEP_TREE_EXPAND2(...) \
  LOCKSTEP_TREE_EXPAND1(LOCKSTEP_TREE_EXPAND1(LOCKSTEP_TREE_EXPAND1(LOCKSTEP_TREE_EXPAND1(__VA_ARGS__))))
#define LOCKSTEP_TREE_EXPAND1(...) __VA_ARGS__
#define LOCKSTEP_TREE_EACH(member, ...) \
  visit(#member, value.member);         \
  __VA_OPT__(LOCKSTEP_TREE_AGAIN LOCKSTEP_TREE_PARENS(__VA_ARGS__))
#define LOCKSTEP_TREE_AGAIN() LOCKSTEP_TREE_EACH

/// Makes a struct of arrays and trees usable wherever a tree is: LOCKSTEP_TREE(Params, w, b) after its definition, in its
/// namespace.
#define LOCKSTEP_TREE(Type, ...)                              \
  template <class Visitor>                                    \
  void lockstep_visit_members(Type& value, Visitor&& visit) { \
    LOCKSTEP_TREE_EXPAND(LOCKSTEP_TREE_EACH(__VA_ARGS__))     \
  }                                                           \
  static_assert(true, "")
