#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

#include <lockstep/tree.h>

namespace lockstep::detail {

/// How many lists and dicts may stand in each other.
inline constexpr std::size_t most_levels = 1000;
[[noreturn]] void refuse_depth();                   ///< Throws StateError.
std::string shown_value(const StaticValue& value);  ///< "the text \"a\"", "2.5", "true".

/// What a list, a dict or a static value holds. The items stand behind it, in the same block of memory.
class TreeNode {
 public:
  /// A node with one owner and room for `capacity` items.
  static TreeNode* make(std::size_t capacity, TreeKeys keys);
  TreeNode(const TreeNode&) = delete;
  TreeNode& operator=(const TreeNode&) = delete;

  void add_owner() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void drop_owner() noexcept {
    if (has_one_owner() || owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  bool has_one_owner() const noexcept { return owners_.load(std::memory_order_acquire) == 1; }

  std::span<Tree> items() { return {first(), count_}; }
  Tree* first() { return reinterpret_cast<Tree*>(this + 1); }
  /// That so many items have been made, from `first()` on.
  void set_count(std::size_t count) { count_ = count; }
  /// Counts anew how many lists and dicts stand in each other, this one among them. Throws StateError where they are too
  /// many: what goes through a tree calls itself.
  void measure_depth();

  TreeKeys keys;  ///< Of a dict.
  StaticValue fixed = false;

 private:
  TreeNode(std::size_t capacity, TreeKeys its_keys) : keys(std::move(its_keys)), capacity_(capacity) {}
  ~TreeNode() = default;
  void destroy() noexcept;
  std::size_t bytes() const { return sizeof(TreeNode) + capacity_ * sizeof(Tree); }

  std::atomic<std::size_t> owners_{1};
  std::size_t capacity_;
  std::size_t count_ = 0;
  std::size_t depth_ = 1;
};

static_assert(alignof(TreeNode) >= alignof(Tree) && sizeof(TreeNode) % alignof(Tree) == 0);

struct DropOwner {
  void operator()(TreeNode* node) const noexcept { node->drop_owner(); }
};
using OwnedNode = std::unique_ptr<TreeNode, DropOwner>;

/// Trees from inside.
class TreeAccess {
 public:
  /// A list or dict of what the node holds.
  static Tree of(OwnedNode node) {
    Tree tree;
    tree.kind_ = node->keys == nullptr ? Tree::Kind::list : Tree::Kind::dict;
    tree.node_ = node.release();
    return tree;
  }
  /// Makes a leaf of what `make()` gives, where it stays.
  template <class Make>
  static void make_leaf(Tree* place, Make& make) {
    ::new (static_cast<void*>(place)) Tree(std::in_place, make);
  }
  static TreeNode* node(const Tree& tree) { return tree.node_; }
  static const Array& leaf(const Tree& tree) { return tree.leaf_; }
  static Array& leaf(Tree& tree) { return tree.leaf_; }
  static std::span<Tree> items(const Tree& tree) {
    return tree.node_ == nullptr ? std::span<Tree>() : tree.node_->items();
  }
  static const TreeKeys& keys(const Tree& tree) { return tree.keys(); }
};

}  // namespace lockstep::detail
