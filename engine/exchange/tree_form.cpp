#include "engine/exchange/tree_form.h"

#include <map>
#include <utility>
#include <variant>

#include <lockstep/error.h>

#include "engine/core/quoting.h"
#include "engine/files/json_reader.h"

namespace lockstep::exchange {
namespace {

constexpr int deepest_tree = 64;

/// Entries that are one.
json::Value entry(std::string_view name, json::Value value) {
  json::Value entries;
  entries[name] = std::move(value);
  return entries;
}

json::Value form_of(const Tree& tree) {
  switch (tree.kind()) {
    case Tree::Kind::none:
      return {};
    case Tree::Kind::leaf:
      return "leaf";
    case Tree::Kind::fixed:
      return entry("fixed", std::visit([](const auto& value) { return json::Value(value); }, tree.fixed()));
    case Tree::Kind::list: {
      json::Value items = json::Value::list();
      for (const Tree& item : tree.items()) items.push_back(form_of(item));
      return entry("list", std::move(items));
    }
    case Tree::Kind::dict:
      break;
  }
  json::Value entries = json::Value::object();
  for (const auto& [key, value] : tree.entries()) entries[key] = form_of(value);
  return entry("dict", std::move(entries));
}

bool is_leaf(const json::Value& form) { return form.text() != nullptr && *form.text() == "leaf"; }

class Reader {
 public:
  Reader(std::vector<Array> leaves, const std::string& file) : leaves_(std::move(leaves)), file_(file) {}

  Tree read(const json::Value& form, int depth) {
    if (depth > deepest_tree) fail_of_depth();
    if (form.is_null()) return {};
    if (is_leaf(form)) {
      if (next_ == leaves_.size()) fail("has more leaves than there are arrays");
      return leaves_[next_++];
    }
    if (form.entries() == nullptr || form.entries()->size() != 1) {
      fail("holds " + with_article(form.type_name()) + " that is none");
    }
    const auto& [kind, value] = *form.entries()->begin();
    if (kind == "fixed") return fixed(value);
    if (kind == "list" && value.items() != nullptr) {
      std::vector<Tree> items;
      for (const json::Value& item : *value.items()) items.push_back(read(item, depth + 1));
      return Tree::list(std::move(items));
    }
    if (kind != "dict" || value.entries() == nullptr) fail("holds the kind '" + kind.substr(0, 60) + "'");
    std::map<std::string, Tree> entries;
    for (const auto& [key, item] : *value.entries()) entries.emplace(key, read(item, depth + 1));
    return Tree::dict(std::move(entries));
  }
  void check_end() const {
    if (next_ != leaves_.size()) fail("has fewer leaves than there are arrays");
  }
  [[noreturn]] void fail_of_depth() const { fail("is nested more than 64 deep"); }
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("[load_function] " + file_ + ": a structure of trees in manifest.json " + what);
  }

 private:
  Tree fixed(const json::Value& value) const {
    if (value.boolean()) return Tree(StaticValue(*value.boolean()));
    if (value.integer()) return Tree(StaticValue(*value.integer()));
    if (value.number()) return Tree(StaticValue(*value.number()));
    if (value.text() != nullptr) return Tree(StaticValue(*value.text()));
    fail("holds a static value that is " + with_article(value.type_name()));
  }

  std::vector<Array> leaves_;
  const std::string& file_;
  std::size_t next_ = 0;
};

std::size_t count(const json::Value& form) {
  if (is_leaf(form)) return 1;
  std::size_t leaves = 0;
  if (form.items() != nullptr) {
    for (const json::Value& item : *form.items()) leaves += count(item);
  } else if (form.entries() != nullptr) {
    for (const auto& [name, item] : *form.entries()) leaves += count(item);
  }
  return leaves;
}

json::Parsed parse(std::string_view form) { return json::parse(form, 2 * (deepest_tree + 1)); }

}  // namespace

std::string tree_form(const Tree& tree) { return form_of(tree).to_string(); }

Tree tree_of_form(std::string_view form, std::vector<Array> leaves, const std::string& file) {
  Reader reader(std::move(leaves), file);
  const json::Parsed parsed = parse(form);
  if (parsed.is_too_deep) reader.fail_of_depth();
  if (!parsed.repeated.empty()) reader.fail("has '" + parsed.repeated.substr(0, 60) + "' twice");
  if (!parsed.value) reader.fail("is no JSON");
  Tree tree = reader.read(*parsed.value, 0);
  reader.check_end();
  return tree;
}

std::size_t leaves_of_form(std::string_view form, const std::string& file) {
  const json::Parsed parsed = parse(form);
  const std::size_t leaves = parsed.value ? count(*parsed.value) : 0;
  tree_of_form(form, std::vector<Array>(leaves), file);
  return leaves;
}

}  // namespace lockstep::exchange
