#include "engine/api/trees/tree_node.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>

#include <fmt/format.h>

#include <lockstep/backend/block_pool.h>
#include <lockstep/error.h>

#include "engine/core/stack_room.h"

namespace lockstep {

namespace detail {

TreeNode* TreeNode::make(std::size_t capacity, TreeKeys keys) {
  return new (take_block(sizeof(TreeNode) + capacity * sizeof(Tree))) TreeNode(capacity, std::move(keys));
}

void TreeNode::destroy() noexcept {
  std::destroy_n(items().data(), count_);
  const std::size_t size = bytes();
  this->~TreeNode();
  give_block(this, size);
}

TreeBuilder::TreeBuilder(std::size_t capacity, TreeKeys keys)
    : kind_(keys == nullptr ? Tree::Kind::list : Tree::Kind::dict),
      node_(TreeNode::make(capacity, std::move(keys))),
      first_(node_->first()),
      next_(first_) {
  if (has_stack_room()) return;
  node_->drop_owner();
  refuse_depth();
}

TreeBuilder::~TreeBuilder() {
  if (node_ == nullptr) return;
  node_->set_count(static_cast<std::size_t>(next_ - first_));
  node_->drop_owner();
}

void TreeNode::measure_depth() {
  std::size_t deepest = 0;
  for (const Tree& item : items()) {
    const TreeNode* const node = TreeAccess::node(item);
    if (node != nullptr) deepest = std::max(deepest, node->depth_);
  }
  depth_ = deepest + 1;
  if (depth_ > most_levels) refuse_depth();
}

void refuse_depth() {
  throw StateError(
      fmt::format("tree: more than {} lists and dicts stand in each other; expected a tree that is wide, not deep: put "
                  "the items of a "
                  "chain in one list",
                  most_levels));
}

void check_depth(const Tree& tree) {
  if (TreeNode* const node = TreeAccess::node(tree)) node->measure_depth();
}

Tree TreeBuilder::finish() {
  node_->set_count(static_cast<std::size_t>(next_ - first_));
  node_->measure_depth();
  Tree tree;
  tree.node_ = std::exchange(node_, nullptr);
  tree.kind_ = kind_;
  return tree;
}

void TreeBuilder::add(Tree item) {
  add([&] { return std::move(item); });
}

MemberKeys::MemberKeys(const char* const* names, std::size_t count) : places_(new std::size_t[count]) {
  std::vector<std::string> sorted(names, names + count);
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), names[i]);
    places_[i] = static_cast<std::size_t>(place - sorted.begin());
  }
  keys_ = std::make_shared<const std::vector<std::string>>(std::move(sorted));
}

MemberKeys::~MemberKeys() { delete[] places_; }

std::string shown_value(const StaticValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return "the text \"" + *text + "\"";
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  return fmt::format("{}", std::get<double>(value));
}

namespace {

void expect_number(const StaticValue& value) {
  if (!std::holds_alternative<std::string>(value)) return;
  throw StateError("tree: " + shown_value(value) + " is no number; read it as a std::string, or give a number");
}

[[noreturn]] void refuse_number(const StaticValue& value, const std::string& expected) {
  throw ValueError("tree: " + shown_value(value) + " cannot be read as " + expected +
                   "; give one, or read it as a type that holds it");
}

}  // namespace

std::int64_t fixed_integer(const Tree& tree, std::int64_t least, std::int64_t most) {
  const StaticValue& value = tree.fixed();
  expect_number(value);
  const auto* integer = std::get_if<std::int64_t>(&value);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  constexpr double beyond = 9223372036854775808.0;
  const double real = integer != nullptr ? 0 : std::get<double>(value);
  const bool is_whole = integer != nullptr || (real >= -beyond && real < beyond && std::trunc(real) == real);
  const std::int64_t found = integer != nullptr ? *integer : is_whole ? static_cast<std::int64_t>(real) : 0;
  if (is_whole && found >= least && found <= most) return found;
  refuse_number(value, fmt::format("a whole number from {} to {}", least, most));
}

double fixed_real(const Tree& tree, bool is_float) {
  const StaticValue& value = tree.fixed();
  expect_number(value);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  const double real = std::get<double>(value);
  if (is_float && std::isfinite(real) && !std::isfinite(static_cast<float>(real))) {
    refuse_number(value, "a float, which reaches 3.4e38");
  }
  return real;
}

void check_items(std::size_t items, std::size_t expected) {
  if (items >= expected) return;
  throw StateError(fmt::format("tree: a list of {} items cannot be read as {}; give one item each", items, expected));
}

}  // namespace detail

Tree Tree::fixed_tree(StaticValue value) {
  Tree tree;
  tree.node_ = detail::TreeNode::make(0, nullptr);
  tree.node_->fixed = std::move(value);
  tree.kind_ = Kind::fixed;
  return tree;
}

Tree Tree::list(std::vector<Tree> items) {
  detail::TreeBuilder builder(items.size());
  for (Tree& item : items) builder.add(std::move(item));
  return builder.finish();
}

Tree Tree::dict(std::map<std::string, Tree> items) {
  std::vector<std::string> keys;
  keys.reserve(items.size());
  for (const auto& [key, item] : items) keys.push_back(key);
  detail::TreeBuilder builder(items.size(), std::make_shared<const std::vector<std::string>>(std::move(keys)));
  for (auto& [key, item] : items) builder.add(std::move(item));
  return builder.finish();
}

Tree Tree::dict(std::initializer_list<std::pair<std::string, Tree>> items) {
  std::map<std::string, Tree> entries;
  for (const auto& [key, item] : items) {
    if (entries.emplace(key, item).second) continue;
    throw StateError("tree: the key \"" + key + "\" is given twice; expected each key of a dict once");
  }
  return dict(std::move(entries));
}

Tree Tree::blank_dict(const detail::TreeKeys& keys) {
  detail::TreeBuilder builder(keys->size(), keys);
  for (std::size_t i = 0; i < keys->size(); ++i) builder.add(Tree());
  return builder.finish();
}

std::span<Tree> Tree::own_items() {
  if (node_ == nullptr) return {};
  if (!node_->has_one_owner() && kind_ != Kind::fixed) {
    detail::TreeBuilder builder(node_->items().size(), node_->keys);
    for (const Tree& item : node_->items()) builder.add(item);
    *this = builder.finish();
  }
  return node_->items();
}

const detail::TreeKeys& Tree::keys() const {
  static const detail::TreeKeys none = std::make_shared<const std::vector<std::string>>();
  return node_ == nullptr ? none : node_->keys;
}

bool Tree::is_dict_of(const detail::TreeKeys& keys) const { return kind_ == Kind::dict && this->keys() == keys; }

Tree TreeTraits<std::string>::to_tree(std::string value) { return Tree(StaticValue(std::move(value))); }
std::string TreeTraits<std::string>::from_tree(const Tree& tree) {
  const StaticValue& value = tree.fixed();
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  throw StateError("tree: " + detail::shown_value(value) + " is no text; read it as a number, or give a std::string");
}

void Tree::share() const noexcept { node_->add_owner(); }
void Tree::release() noexcept { node_->drop_owner(); }

}  // namespace lockstep
