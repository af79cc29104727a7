#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/moved_from.h>
#include <lockstep/tree.h>

#include "engine/api/trees/tree_node.h"
#include "engine/api/trees/tree_paths.h"
#include "engine/core/quoting.h"
#include "engine/core/stable_hash.h"
#include "engine/core/text/shortened.h"

namespace lockstep {

namespace {

using detail::TreeAccess;

std::string_view kind_name(Tree::Kind kind) {
  switch (kind) {
    case Tree::Kind::none:
      return "nothing";
    case Tree::Kind::leaf:
      return "a leaf";
    case Tree::Kind::fixed:
      return "a static value";
    case Tree::Kind::list:
      return "a list";
    case Tree::Kind::dict:
      return "a dict";
  }
  return "";
}

[[noreturn]] void wrong_kind(std::string_view expected, const Tree& tree) {
  throw StateError(fmt::format("tree: expected {}, found {}: {}", expected, kind_name(tree.kind()), to_string(tree)));
}

std::string print(const StaticValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) return lockstep::quoted(v);
        std::string text = fmt::format("{}", v);
        // A number that is no integer shows it; "{:#}" is "2.0" or "2." by fmt's version.
        if (std::is_same_v<T, double> && text.find_first_of(".eni") == std::string::npos) text += ".0";
        return text;
      },
      value);
}

std::string described(const Tree& tree) {
  switch (tree.kind()) {
    case Tree::Kind::fixed:
      return print(tree.fixed());
    case Tree::Kind::list:
      return fmt::format("a list of {} items", tree.items().size());
    default:
      return std::string(kind_name(tree.kind()));
  }
}

template <class LeafPrinter>
std::string print(const Tree& tree, const LeafPrinter& leaf) {
  std::string text;
  switch (tree.kind()) {
    case Tree::Kind::none:
      return "none";
    case Tree::Kind::leaf:
      return leaf(tree.array());
    case Tree::Kind::fixed:
      return print(tree.fixed());
    case Tree::Kind::list:
      for (const Tree& item : tree.items()) text += (text.empty() ? "" : ", ") + print(item, leaf);
      return "[" + text + "]";
    case Tree::Kind::dict:
      for (const auto& [key, item] : tree.entries()) {
        text += (text.empty() ? "" : ", ") + lockstep::quoted(key) + ": " + print(item, leaf);
      }
      return "{" + text + "}";
  }
  return text;
}

/// A key as a part of a path: reading '/' and '~' as written would take it for another.
std::string escaped(const std::string& key) {
  if (key.empty()) return "~";
  if (key == "~") return "~0";
  std::string text;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char next = i + 1 < key.size() ? key[i + 1] : ' ';
    if (key[i] == '/') {
      text += "~1";
    } else if (key[i] == '~' && next >= '0' && next <= '2') {
      text += "~0";
    } else {
      text += key[i];
    }
  }
  return text;
}

std::string unescaped(std::string_view part) {
  if (part == "~") return "";
  std::string key;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const char next = i + 1 < part.size() ? part[i + 1] : ' ';
    const bool escape = part[i] == '~' && (next == '0' || next == '1');
    key += escape ? next == '0' ? '~' : '/' : part[i];
    i += escape ? 1 : 0;
  }
  return key;
}

/// The path of what has that key (or index) below `prefix`.
std::string path_below_prefix(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? escaped(key) : prefix + "/" + escaped(key);
}

/// `visit(path, leaf)` for every leaf, in order of path.
template <class Visit>
void for_each_leaf(const Tree& tree, const std::string& path, const Visit& visit) {
  if (tree.kind() == Tree::Kind::leaf) visit(path, tree.array());
  if (tree.kind() == Tree::Kind::list) {
    std::size_t i = 0;
    for (const Tree& item : tree.items()) for_each_leaf(item, path_below_prefix(path, std::to_string(i++)), visit);
  }
  if (tree.kind() == Tree::Kind::dict) {
    for (const auto& [key, item] : tree.entries()) for_each_leaf(item, path_below_prefix(path, key), visit);
  }
}

/// `visit(leaf)` likewise.
template <class Visit>
void for_each_leaf(const Tree& tree, const Visit& visit) {
  if (tree.kind() == Tree::Kind::leaf) visit(tree.array());
  for (const Tree& item : TreeAccess::items(tree)) for_each_leaf(item, visit);
}

/// A tree like `tree`, with `function(item, i)` in place of item i.
template <class ItemFunction>
Tree map_items(const Tree& tree, const ItemFunction& function) {
  const bool is_dict = tree.kind() == Tree::Kind::dict;
  const std::span<const Tree> from = TreeAccess::items(tree);
  detail::TreeBuilder builder(from.size(), is_dict ? TreeAccess::keys(tree) : nullptr);
  for (std::size_t i = 0; i < from.size(); ++i) builder.add(function(from[i], i));
  return builder.finish();
}

bool has_items(const Tree& tree) { return tree.kind() == Tree::Kind::list || tree.kind() == Tree::Kind::dict; }

/// `function(leaf)` in place of each leaf, in order of path.
template <class LeafFunction>
Tree map_leaves(const Tree& tree, const LeafFunction& function) {
  if (tree.kind() == Tree::Kind::leaf) return Tree(function(tree.array()));
  if (!has_items(tree)) return tree;
  return map_items(tree, [&](const Tree& item, std::size_t) { return map_leaves(item, function); });
}

Tree map_leaves(const Tree& tree, const std::function<Array(const std::string&, const Array&)>& function,
                const std::string& path) {
  if (tree.kind() == Tree::Kind::leaf) return Tree(function(path, tree.array()));
  if (!has_items(tree)) return tree;
  return map_items(tree, [&](const Tree& item, std::size_t i) {
    return map_leaves(
        item, function,
        path_below_prefix(path, tree.kind() == Tree::Kind::dict ? (*TreeAccess::keys(tree))[i] : std::to_string(i)));
  });
}

const Tree* child(const Tree& tree, std::string_view name) {
  if (tree.kind() == Tree::Kind::dict) {
    const TreeEntries entries = tree.entries();
    const auto found = entries.find(unescaped(name));
    return found == entries.end() ? nullptr : &found->second;
  }
  if (tree.kind() == Tree::Kind::list) {
    for (std::size_t i = 0; i < tree.items().size(); ++i) {
      if (std::to_string(i) == name) return &tree.items()[i];
    }
  }
  return nullptr;
}

/// The first name of a path and the rest.
std::pair<std::string_view, std::string_view> split_path(std::string_view path) {
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return {path, {}};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

const Tree* find(const Tree& tree, std::string_view path) {
  const Tree* node = &tree;
  while (node != nullptr && !path.empty()) {
    const auto [name, rest] = split_path(path);
    node = child(*node, name);
    path = rest;
  }
  return node;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

void collect_paths(const Tree& tree, const std::string& path, std::vector<std::string>& paths) {
  if (!path.empty()) paths.push_back(path);
  if (tree.kind() == Tree::Kind::list) {
    for (std::size_t i = 0; i < tree.items().size(); ++i) {
      collect_paths(tree.items()[i], path_below_prefix(path, std::to_string(i)), paths);
    }
  }
  if (tree.kind() == Tree::Kind::dict) {
    for (const auto& [key, item] : tree.entries()) collect_paths(item, path_below_prefix(path, key), paths);
  }
}

std::string nearest_paths(const Tree& tree, std::string_view path) {
  std::vector<std::string> paths;
  collect_paths(tree, "", paths);
  std::stable_sort(paths.begin(), paths.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(a, path) < edit_distance(b, path);
  });
  if (paths.size() > 3) paths.resize(3);
  return paths.empty() ? "it is empty, as a tree is that std::move took away"
                       : fmt::format("nearest are \"{}\"", fmt::join(paths, "\", \""));
}

void add_structure(StableHash& hash, const Tree& tree) {
  hash.add(static_cast<std::uint64_t>(tree.kind()));
  switch (tree.kind()) {
    case Tree::Kind::fixed:
      hash.add(tree.fixed().index());
      hash.add(std::hash<StaticValue>{}(tree.fixed()));
      break;
    case Tree::Kind::list:
      hash.add(tree.items().size());
      for (const Tree& item : tree.items()) add_structure(hash, item);
      break;
    case Tree::Kind::dict:
      hash.add(tree.entries().size());
      for (const auto& [key, item] : tree.entries()) {
        hash.add(std::string_view(key));
        add_structure(hash, item);
      }
      break;
    default:
      break;
  }
}

}  // namespace

const Array& Tree::array() const {
  if (kind_ != Kind::leaf) wrong_kind("a leaf", *this);
  return leaf_;
}

void Tree::refuse_as_leaf() const { wrong_kind("a leaf", *this); }

const StaticValue& Tree::fixed() const {
  if (kind_ != Kind::fixed) wrong_kind("a static value", *this);
  if (node_ == nullptr) detail::refuse_moved_from("tree");
  return node_->fixed;
}

std::span<const Tree> Tree::items() const {
  if (kind_ != Kind::list) wrong_kind("a list", *this);
  return TreeAccess::items(*this);
}

TreeEntries Tree::entries() const {
  if (kind_ != Kind::dict) wrong_kind("a dict", *this);
  return {*keys(), TreeAccess::items(*this)};
}

TreeEntries::Entry TreeEntries::Iterator::operator*() const { return {*key_, *item_}; }
TreeEntries::Iterator::pointer TreeEntries::Iterator::operator->() const { return pointer(**this); }
TreeEntries::Iterator::pointer::pointer(Entry entry) : entry_(entry) {}

TreeEntries::Iterator TreeEntries::find(std::string_view key) const {
  const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
  if (found == keys_.end() || *found != key) return end();
  const auto i = found - keys_.begin();
  return {keys_.data() + i, items_.data() + i};
}

const Tree& TreeEntries::at(std::string_view key) const {
  const auto found = find(key);
  if (found == end()) throw StateError(fmt::format("tree: there is no \"{}\" among {} entries", key, size()));
  return found->second;
}

const Tree& Tree::at(std::string_view path) const {
  const Tree* found = find(*this, path);
  if (found == nullptr) {
    throw StateError(fmt::format("tree: there is no \"{}\"; {}", shortened(path), nearest_paths(*this, path)));
  }
  return *found;
}

bool Tree::contains(std::string_view path) const { return find(*this, path) != nullptr; }

Tree Tree::with(std::string_view path, Tree value) const {
  if (path.empty()) return value;
  if (path.size() > detail::most_levels &&
      std::ranges::count(path, '/') >= static_cast<std::ptrdiff_t>(detail::most_levels))
    detail::refuse_depth();
  const auto [name, rest] = split_path(path);
  if (kind_ == Kind::dict || kind_ == Kind::none) {
    std::map<std::string, Tree> entries;
    if (kind_ == Kind::dict) {
      for (const auto& [key, item] : this->entries()) entries.emplace_hint(entries.end(), key, item);
    }
    Tree& entry = entries[unescaped(name)];
    entry = entry.with(rest, std::move(value));
    return dict(std::move(entries));
  }
  if (kind_ != Kind::list) {
    throw StateError(
        fmt::format("tree: cannot set \"{}\" below {}; only dicts and lists have entries", path, kind_name(kind_)));
  }
  const std::span<const Tree> items = this->items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (std::to_string(i) != name) continue;
    Tree copy = *this;
    copy.own_items()[i] = items[i].with(rest, std::move(value));
    TreeAccess::node(copy)->measure_depth();
    return copy;
  }
  throw StateError(fmt::format("tree: cannot set \"{}\" in a list of {} items; write an index below {}", name,
                               items.size(), items.size()));
}

std::size_t Tree::size() const {
  std::size_t count = 0;
  for_each_leaf(*this, [&](const Array&) { ++count; });
  return count;
}

std::vector<Array> Tree::leaves() const {
  std::vector<Array> leaves;
  append_leaves(*this, leaves);
  return leaves;
}

void append_leaves(const Tree& tree, std::vector<Array>& leaves) {
  for_each_leaf(tree, [&](const Array& leaf) { leaves.push_back(leaf); });
}

std::vector<Array> Tree::take_leaves() && {
  std::vector<Array> leaves;
  const auto take = [&leaves](const auto& self, Tree& tree) -> void {
    if (tree.kind_ == Kind::leaf) leaves.push_back(std::move(tree.leaf_));
    for (Tree& item : tree.own_items()) self(self, item);
  };
  take(take, *this);
  *this = Tree();
  return leaves;
}

std::vector<std::string> Tree::paths() const {
  std::vector<std::string> paths;
  for_each_leaf(*this, "", [&](const std::string& path, const Array&) { paths.push_back(path); });
  return paths;
}

Tree Tree::unflatten(std::vector<Array> leaves) const {
  std::size_t next = 0;
  const std::size_t count = size();
  if (leaves.size() != count) {
    throw StateError(
        fmt::format("tree: unflatten got {} leaves for a structure of {}: {}", leaves.size(), count, structure()));
  }
  return map_leaves(*this, [&](const Array&) { return std::move(leaves[next++]); });
}

std::string Tree::structure() const {
  return print(*this, [](const Array&) { return std::string("*"); });
}

std::uint64_t Tree::structure_hash() const {
  StableHash hash;
  add_structure(hash, *this);
  return hash.value();
}

bool Tree::same_structure(const Tree& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::fixed) return fixed() == other.fixed();
  if (kind_ == Kind::dict && keys() != other.keys() && *keys() != *other.keys()) return false;
  return std::ranges::equal(TreeAccess::items(*this), TreeAccess::items(other),
                            [](const Tree& a, const Tree& b) { return a.same_structure(b); });
}

std::optional<Difference> first_difference(const Tree& a, const Tree& b, const std::string& path) {
  if (a.same_structure(b)) return std::nullopt;
  if (a.kind() != b.kind() || a.kind() == Tree::Kind::fixed) return Difference{path, described(a), described(b)};
  if (a.kind() == Tree::Kind::list) {
    if (a.items().size() != b.items().size()) return Difference{path, described(a), described(b)};
    for (std::size_t i = 0; i < a.items().size(); ++i) {
      if (auto found = first_difference(a.items()[i], b.items()[i], path_below_prefix(path, std::to_string(i))))
        return found;
    }
  }
  if (a.kind() != Tree::Kind::dict) return std::nullopt;
  const TreeEntries others = b.entries();
  for (const auto& [key, item] : a.entries()) {
    const auto other = others.find(key);
    if (other == others.end()) return Difference{path_below_prefix(path, key), described(item), "missing"};
    if (auto found = first_difference(item, other->second, path_below_prefix(path, key))) return found;
  }
  for (const auto& [key, item] : b.entries()) {
    if (!a.entries().contains(key)) return Difference{path_below_prefix(path, key), "missing", described(item)};
  }
  return std::nullopt;
}

Tree map(const std::function<Array(const Array&)>& function, const Tree& tree) { return map_leaves(tree, function); }

Tree map(const std::function<Array(const Array&, const Array&)>& function, const Tree& a, const Tree& b) {
  return detail::map_together([&](std::span<const Array> leaves) { return function(leaves[0], leaves[1]); }, {&a, &b});
}

Tree detail::map_together(const std::function<Array(std::span<const Array>)>& function,
                          std::initializer_list<const Tree*> trees) {
  const Tree& first = **trees.begin();
  std::vector<std::vector<Array>> leaves;
  for (const Tree* tree : trees) {
    if (const auto difference = tree == &first ? std::nullopt : first_difference(first, *tree)) {
      const std::string place = trees.size() == 2 ? "the second" : fmt::format("tree {}", leaves.size() + 1);
      throw StateError(fmt::format("map: the trees differ at \"{}\": {} in the first, {} in {}; {} need one structure",
                                   difference->path, difference->a, difference->b, place,
                                   trees.size() == 2 ? "both" : "all"));
    }
    leaves.push_back(tree->leaves());
  }
  std::size_t next = 0;
  return map_leaves(first, [&](const Array&) {
    std::vector<Array> together;
    for (const std::vector<Array>& of_one : leaves) together.push_back(of_one[next]);
    ++next;
    return function(together);
  });
}

Tree map_with_path(const std::function<Array(const std::string&, const Array&)>& function, const Tree& tree) {
  return map_leaves(tree, function, "");
}

void check_same_types(const Tree& expected, const Tree& given, std::string_view what) {
  std::map<std::string, ArrayType> wanted;
  for_each_leaf(expected, "", [&](const std::string& path, const Array& leaf) { wanted.emplace(path, leaf.type()); });
  std::map<std::string, ArrayType> found;
  for_each_leaf(given, "", [&](const std::string& path, const Array& leaf) { found.emplace(path, leaf.type()); });
  for (const auto& [path, type] : wanted) {
    const auto leaf = found.find(path);
    if (leaf == found.end()) {
      throw StateError(fmt::format("{}: leaf \"{}\" is missing (expected {})", what, path, to_string(type)));
    }
    if (leaf->second.dtype != type.dtype || !(leaf->second.shape == type.shape)) {
      throw StateError(
          fmt::format("{}: leaf \"{}\" is {}, expected {}", what, path, to_string(leaf->second), to_string(type)));
    }
  }
  for (const auto& [path, type] : found) {
    if (!wanted.contains(path)) {
      throw StateError(fmt::format("{}: surplus leaf \"{}\" of type {}; {}", what, path, to_string(type),
                                   nearest_paths(expected, path)));
    }
  }
}

std::string to_string(const Tree& tree) {
  return print(tree, [](const Array& leaf) { return leaf.has_value() ? to_string(leaf.type()) : std::string("*"); });
}

}  // namespace lockstep
