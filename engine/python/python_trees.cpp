#include "engine/python/python_trees.h"

#include <map>
#include <string>
#include <utility>
#include <variant>

#include <nanobind/stl/string.h>

#include <lockstep/error.h>

#include "engine/python/numpy_arrays.h"

namespace lockstep::python {

namespace nb = nanobind;

namespace {

const Tree& item(const Tree& structure, std::size_t i) {
  static const Tree none;
  return structure.kind() == Tree::Kind::list && i < structure.items().size() ? structure.items()[i] : none;
}

const Tree& entry(const Tree& structure, const std::string& name) {
  static const Tree none;
  return structure.kind() == Tree::Kind::dict && structure.contains(name) ? structure.at(name) : none;
}

}  // namespace

nb::object python_of(const Tree& tree, const std::function<nb::object(const Array&)>& leaf) {
  switch (tree.kind()) {
    case Tree::Kind::leaf:
      return leaf(tree.array());
    case Tree::Kind::list: {
      nb::list list;
      for (const Tree& child : tree.items()) list.append(python_of(child, leaf));
      return list;
    }
    case Tree::Kind::dict: {
      nb::dict dict;
      for (const auto& [name, child] : tree.entries())
        dict[nb::str(name.c_str(), name.size())] = python_of(child, leaf);
      return dict;
    }
    case Tree::Kind::fixed:
      return std::visit(
          [](const auto& value) -> nb::object {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
              return nb::str(value.c_str(), value.size());
            } else {
              return nb::cast(value);
            }
          },
          tree.fixed());
    default:
      return nb::none();
  }
}

Tree tree_of(nb::handle given, const Tree& structure, const std::vector<ArrayType>& types) {
  if (structure.kind() == Tree::Kind::fixed) return structure;
  if (given.is_none()) return {};
  if (nb::isinstance<nb::dict>(given)) {
    std::map<std::string, Tree> children;
    for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
      if (!nb::isinstance<nb::str>(key)) throw StateError("[python] a dict has a key that is no str; give names");
      const std::string name = nb::cast<std::string>(key);
      children.emplace(name, tree_of(value, entry(structure, name), types));
    }
    return Tree::dict(std::move(children));
  }
  const bool is_leaf = structure.kind() == Tree::Kind::leaf;
  if (!is_leaf && (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given))) {
    std::vector<Tree> children;
    for (nb::handle child : given) children.push_back(tree_of(child, item(structure, children.size()), types));
    return Tree::list(std::move(children));
  }
  if (!is_leaf) return Tree(array_of(given));
  const auto number = static_cast<std::size_t>(structure.array().item<std::int32_t>());
  return Tree(array_of(given, &types[number].dtype));
}

}  // namespace lockstep::python
