#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
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

class TreeEntries;

namespace detail {
class TreeNode;    // of a list, a dict or a static value
class TreeAccess;  // what the engine may see of it
class TreeBuilder;
template <class T>
class StructTree;  // of a struct declared with LOCKSTEP_TREE
/// The keys of a dict, sorted, without repetition; trees made from one another share them.
using TreeKeys = std::shared_ptr<const std::vector<std::string>>;
}  // namespace detail

/// Nested containers of arrays (a pytree): a leaf, a static value, nothing, a list, or a dict ordered by key. A handle:
/// copies are cheap and share what they hold, which does not change.
class LOCKSTEP_API Tree {
 public:
  enum class Kind : std::uint8_t { none, leaf, fixed, list, dict };

  Tree() = default;                                                           ///< None.
  Tree(const Array& leaf) : leaf_(leaf), kind_(Kind::leaf) {}                 // NOLINT: implicit by design
  Tree(Array&& leaf) noexcept : leaf_(std::move(leaf)), kind_(Kind::leaf) {}  // NOLINT: implicit by design
  /// A static value: a bool, a number or a text. A template, so that trees of arrays do not ask what converts to one.
  template <class Value>
  requires(!std::is_convertible_v<const Value&, const Array&> && !std::is_same_v<Value, Tree> &&
           std::is_convertible_v<Value, StaticValue>) explicit Tree(Value value)
      : Tree(fixed_tree(StaticValue(std::move(value)))) {}
  Tree(const Tree& other) : leaf_(other.leaf_), node_(other.node_), kind_(other.kind_) {
    if (node_ != nullptr) share();
  }
  Tree(Tree&& other) noexcept : leaf_(std::move(other.leaf_)), node_(other.node_), kind_(other.kind_) {
    other.node_ = nullptr;
  }
  Tree& operator=(const Tree& other) {
    Tree copy(other);
    swap(copy);
    return *this;
  }
  Tree& operator=(Tree&& other) noexcept {
    Tree taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Tree() {
    if (node_ != nullptr) release();
  }
  static Tree list(std::vector<Tree> items);
  static Tree dict(std::map<std::string, Tree> items);
  /// `Tree::dict({{"w", w}, {"b", b}})`. Throws StateError for a key that is given twice.
  static Tree dict(std::initializer_list<std::pair<std::string, Tree>> items);

  Kind kind() const { return kind_; }
  bool is_leaf() const { return kind_ == Kind::leaf; }
  /// The leaf's array. Throws StateError naming the kind otherwise.
  const Array& array() const;
  /// The leaf's array, moved out. Throws likewise.
  Array take_array() && {
    if (kind_ != Kind::leaf) refuse_as_leaf();
    return std::move(leaf_);
  }
  const StaticValue& fixed() const;
  std::span<const Tree> items() const;  ///< Of a list.
  TreeEntries entries() const;          ///< Of a dict.

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
  /// One path a leaf, "conv/kernel"; "" for a single leaf. Keys that would read as something else are escaped: '/' is
  /// "~1", '~' before 0, 1 or 2 and a key "~" are "~0", and an empty key is "~". All that takes a path reads it so.
  std::vector<std::string> paths() const;
  /// The same structure over other leaves. Throws StateError if the count differs.
  Tree unflatten(std::vector<Array> leaves) const;
  /// The structure: kinds, keys and static values, no arrays. Equal text means equal structure.
  std::string structure() const;
  std::uint64_t structure_hash() const;
  bool same_structure(const Tree& other) const;

 private:
  template <class T>
  friend struct TreeTraits;
  template <class T>
  friend class detail::StructTree;
  friend class detail::TreeAccess;
  friend class detail::TreeBuilder;

  /// A leaf of what `make()` gives, which is not moved.
  template <class Make>
  Tree(std::in_place_t, Make& make) : leaf_(make()), kind_(Kind::leaf) {}
  static Tree fixed_tree(StaticValue value);
  /// A dict of Nones.
  static Tree blank_dict(const detail::TreeKeys& keys);
  /// Items of a list or values of a dict that this tree alone holds, to be written or moved out. Shared ones are
  /// copied.
  std::span<Tree> own_items();
  /// Of a dict.
  const detail::TreeKeys& keys() const;
  bool is_dict_of(const detail::TreeKeys& keys) const;
  [[noreturn]] void refuse_as_leaf() const;
  void share() const noexcept;
  void release() noexcept;
  void swap(Tree& other) noexcept {
    leaf_.swap(other.leaf_);
    detail::TreeNode* const node = node_;
    node_ = other.node_;
    other.node_ = node;
    const Kind kind = kind_;
    kind_ = other.kind_;
    other.kind_ = kind;
  }

  Array leaf_;
  detail::TreeNode* node_ = nullptr;  ///< Null where there is nothing below, as in a tree that std::move took away.
  Kind kind_ = Kind::none;
};

namespace detail {

/// Makes a list, or a dict where there are keys, item by item.
class LOCKSTEP_API TreeBuilder {
 public:
  /// For at most `capacity` items; a dict has one for each key.
  explicit TreeBuilder(std::size_t capacity, TreeKeys keys = nullptr);
  TreeBuilder(const TreeBuilder&) = delete;
  TreeBuilder& operator=(const TreeBuilder&) = delete;
  ~TreeBuilder();

  void add(Tree item);
  /// What `make()` gives, made where it stays: a handle that is moved right after it was written stalls the processor.
  template <class Make>
  requires std::is_invocable_r_v<Tree, Make&>
  void add(Make&& make) {
    ::new (static_cast<void*>(next_)) Tree(make());
    ++next_;
  }
  Tree finish();

 private:
  Tree::Kind kind_;
  TreeNode* node_;
  Tree* first_;
  Tree* next_;
};

}  // namespace detail

/// What a dict holds, in order of key.
class LOCKSTEP_API TreeEntries {
 public:
  using Entry = std::pair<const std::string&, const Tree&>;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using reference = Entry;
    /// Keeps the entry while `->` is evaluated.
    class pointer {
     public:
      explicit pointer(Entry entry);
      const Entry* operator->() const { return &entry_; }

     private:
      Entry entry_;
    };

    Iterator(const std::string* key, const Tree* item) : key_(key), item_(item) {}
    Entry operator*() const;
    pointer operator->() const;
    Iterator& operator++() {
      ++key_;
      ++item_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const std::string* key_;
    const Tree* item_;
  };

  TreeEntries(std::span<const std::string> keys, std::span<const Tree> items) : keys_(keys), items_(items) {}

  std::size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  Iterator begin() const { return {keys_.data(), items_.data()}; }
  Iterator end() const { return {keys_.data() + size(), items_.data() + size()}; }
  Iterator find(std::string_view key) const;  ///< `end()` where there is none.
  bool contains(std::string_view key) const { return find(key) != end(); }
  const Tree& at(std::string_view key) const;  ///< Throws StateError where there is none.

 private:
  std::span<const std::string> keys_;
  std::span<const Tree> items_;
};

/// `function` on every leaf, in order of path.
LOCKSTEP_API Tree map(const std::function<Array(const Array&)>& function, const Tree& tree);
/// `function` on corresponding leaves. Throws StateError naming the first path at which the structures differ.
LOCKSTEP_API Tree map(const std::function<Array(const Array&, const Array&)>& function, const Tree& a, const Tree& b);
namespace detail {
/// `function` on the corresponding leaves of all trees, one at least.
LOCKSTEP_API Tree map_together(const std::function<Array(std::span<const Array>)>& function,
                               std::initializer_list<const Tree*> trees);
}  // namespace detail
/// The same of three trees and more, as jax.tree.map takes them.
template <class F, std::same_as<Tree>... More>
Tree map(const F& function, const Tree& a, const Tree& b, const Tree& c, const More&... more) {
  const auto on_leaves = [&](std::span<const Array> leaves) {
    return [&]<std::size_t... I>(std::index_sequence<I...>)->Array { return function(leaves[I]...); }
    (std::make_index_sequence<3 + sizeof...(More)>{});
  };
  return detail::map_together(on_leaves, {&a, &b, &c, &more...});
}
/// `function(path, leaf)`.
LOCKSTEP_API Tree map_with_path(const std::function<Array(const std::string&, const Array&)>& function,
                                const Tree& tree);
/// Throws StateError naming the first missing, surplus or misshapen leaf by path; `what` says which tree is meant.
LOCKSTEP_API void check_same_types(const Tree& expected, const Tree& given, std::string_view what);
LOCKSTEP_API std::string to_string(const Tree& tree);  ///< `{"b": f32[2], "w": [f32[3,2], none]}`.

// ---- C++ types as trees ---------------------------------------------------------------------------------------------

namespace detail {

/// A static value as a number, of a bool 0 or 1. Throw StateError where the tree is no static value, or one that is no
/// number; ValueError where it is no whole number from `least` to `most`, or no float (`is_float`) and yet finite.
LOCKSTEP_API std::int64_t fixed_integer(const Tree& tree, std::int64_t least, std::int64_t most);
LOCKSTEP_API double fixed_real(const Tree& tree, bool is_float);  ///< The same of a real number.
/// Of a tree whose items were written in place. Throws StateError where it is too deep.
LOCKSTEP_API void check_depth(const Tree& tree);
/// Throws StateError unless there are at least as many items.
LOCKSTEP_API void check_items(std::size_t items, std::size_t expected);

}  // namespace detail

template <class T>
struct TreeTraits;

namespace detail {

template <class T>
concept HasTreeTraits = requires {
  sizeof(TreeTraits<T>);
};
template <class T>
struct IsTree : std::bool_constant<HasTreeTraits<T>> {};
template <class T>
struct IsTree<std::vector<T>> : IsTree<T> {};
template <class T, class Less, class Allocator>
struct IsTree<std::map<std::string, T, Less, Allocator>> : IsTree<T> {};
template <class T>
struct IsTree<std::optional<T>> : IsTree<T> {};
template <class... Ts>
struct IsTree<std::tuple<Ts...>> : std::conjunction<IsTree<Ts>...> {};
template <class A, class B>
struct IsTree<std::pair<A, B>> : std::conjunction<IsTree<A>, IsTree<B>> {};

/// Whether values of the type have a form as a tree.
template <class T>
inline constexpr bool is_tree = IsTree<std::remove_cvref_t<T>>::value;

/// Stands in where a type is no tree, so that nothing but the text below is said.
template <class T>
struct NoTree {
  static Tree to_tree(const T&) { return {}; }
  static T from_tree(const Tree&);
};
template <class T>
struct TraitsOf {
  static_assert(is_tree<T>,
                "this type is no tree: use an Array, a Tree, a number, a std::string, a vector, map, tuple, pair or "
                "optional of trees, or write LOCKSTEP_TREE(Type, members...) behind the struct");
  using Type = std::conditional_t<is_tree<T>, TreeTraits<T>, NoTree<T>>;
};

}  // namespace detail

template <class T>
Tree to_tree(const T& value) {
  return detail::TraitsOf<std::remove_cvref_t<T>>::Type::to_tree(value);
}
/// Consumes the value, so that its arrays keep a single owner.
template <class T>
requires(!std::is_lvalue_reference_v<T>) Tree to_tree(T&& value) {
  return detail::TraitsOf<std::remove_cvref_t<T>>::Type::to_tree(std::move(value));
}
/// The C++ value; what a tree that is moved in owns alone is moved out of it.
template <class T, class TreeArgument>
T from_tree(TreeArgument&& tree) {
  return detail::TraitsOf<T>::Type::from_tree(std::forward<TreeArgument>(tree));
}

template <>
struct TreeTraits<Array> {
  static Tree to_tree(const Array& value) { return Tree(value); }
  static Tree to_tree(Array&& value) { return Tree(std::move(value)); }
  static Array from_tree(const Tree& tree) { return tree.array(); }
  static Array from_tree(Tree&& tree) { return std::move(tree).take_array(); }
};
template <>
struct TreeTraits<Tree> {
  static Tree to_tree(Tree value) { return value; }
  static Tree from_tree(Tree tree) { return tree; }
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
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(detail::fixed_real(tree, sizeof(T) == sizeof(float)));
    } else if constexpr (sizeof(T) == sizeof(std::int64_t)) {  // a uint64 is its bits
      return static_cast<T>(detail::fixed_integer(tree, INT64_MIN, INT64_MAX));
    } else {
      return static_cast<T>(detail::fixed_integer(tree, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    }
  }
};
template <>
struct TreeTraits<std::string> {
  LOCKSTEP_API static Tree to_tree(std::string value);          ///< A static leaf.
  LOCKSTEP_API static std::string from_tree(const Tree& tree);  ///< Its value.
};
template <class T>
struct TreeTraits<std::vector<T>> {
  static Tree to_tree(const std::vector<T>& value) {
    detail::TreeBuilder builder(value.size());
    for (const T& item : value) builder.add([&] { return TreeTraits<T>::to_tree(item); });
    return builder.finish();
  }
  static Tree to_tree(std::vector<T>&& value) {
    detail::TreeBuilder builder(value.size());
    for (T& item : value) builder.add([&] { return TreeTraits<T>::to_tree(std::move(item)); });
    return builder.finish();
  }
  static std::vector<T> from_tree(Tree tree) {
    std::vector<T> value;
    value.reserve(tree.items().size());
    for (Tree& item : tree.own_items()) value.push_back(TreeTraits<T>::from_tree(std::move(item)));
    return value;
  }
};
template <class T, class Less, class Allocator>
struct TreeTraits<std::map<std::string, T, Less, Allocator>> {
  using Map = std::map<std::string, T, Less, Allocator>;
  static Tree to_tree(Map value) {
    std::map<std::string, Tree> entries;
    for (auto& [key, item] : value) entries.emplace(key, TreeTraits<T>::to_tree(std::move(item)));
    return Tree::dict(std::move(entries));
  }
  static Map from_tree(Tree tree) {
    Map value;
    const std::span<Tree> items = tree.own_items();
    std::size_t i = 0;
    for (const auto& [key, item] : tree.entries()) {
      value.emplace_hint(value.end(), key, TreeTraits<T>::from_tree(std::move(items[i++])));
    }
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
    detail::TreeBuilder builder(sizeof...(Ts));
    std::apply([&](Ts&... items) { (builder.add([&] { return TreeTraits<Ts>::to_tree(std::move(items)); }), ...); },
               value);
    return builder.finish();
  }
  static std::tuple<Ts...> from_tree(Tree tree) {
    detail::check_items(tree.items().size(), sizeof...(Ts));
    return from_items(tree.own_items().data(), std::index_sequence_for<Ts...>{});
  }

 private:
  template <std::size_t... I>
  static std::tuple<Ts...> from_items(Tree* items, std::index_sequence<I...>) {
    return {TreeTraits<Ts>::from_tree(std::move(items[I]))...};
  }
};
template <class A, class B>
struct TreeTraits<std::pair<A, B>> {
  static Tree to_tree(std::pair<A, B> value) {
    return TreeTraits<std::tuple<A, B>>::to_tree({std::move(value.first), std::move(value.second)});
  }
  static std::pair<A, B> from_tree(Tree tree) {
    auto [a, b] = TreeTraits<std::tuple<A, B>>::from_tree(std::move(tree));
    return {std::move(a), std::move(b)};
  }
};

/// A struct declared with LOCKSTEP_TREE: a dict of its named members.
template <class T>
concept TreeStruct = requires(T& value) {
  lockstep_visit_members(value, [](const char*, auto&) {});
};

template <TreeStruct T>
struct TreeTraits<T> {
  static Tree to_tree(const T& value) { return detail::StructTree<T>::to_tree(value); }
  static Tree to_tree(T&& value) { return detail::StructTree<T>::to_tree(std::move(value)); }
  template <class TreeArgument>
  static T from_tree(TreeArgument&& tree) {
    return detail::StructTree<T>::from_tree(std::forward<TreeArgument>(tree));
  }
};

}  // namespace lockstep

// The macro LOCKSTEP_TREE, and how structs declared with it are trees.
#include <lockstep/tree_struct.h>
