#include "engine/exchange/tree_form.h"

#include <map>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include <lockstep/error.h>

namespace lockstep::exchange {
namespace {

using Json = nlohmann::json;

constexpr int deepest = 64;

Json form_of(const Tree& tree) {
  switch (tree.kind()) {
    case Tree::Kind::none:
      return nullptr;
    case Tree::Kind::leaf:
      return "leaf";
    case Tree::Kind::fixed:
      return {{"fixed", std::visit([](const auto& value) { return Json(value); }, tree.fixed())}};
    case Tree::Kind::list: {
      Json items = Json::array();
      for (const Tree& item : tree.items()) items.push_back(form_of(item));
      return {{"list", items}};
    }
    case Tree::Kind::dict:
      break;
  }
  Json entries = Json::object();
  for (const auto& [key, value] : tree.entries()) entries[key] = form_of(value);
  return {{"dict", entries}};
}

class Reader {
 public:
  Reader(std::vector<Array> leaves, const std::string& file) : leaves_(std::move(leaves)), file_(file) {}

  Tree read(const Json& form, int depth) {
    if (depth > deepest) fail("is nested more than 64 deep");
    if (form.is_null()) return {};
    if (form == "leaf") {
      if (next_ == leaves_.size()) fail("has more leaves than there are arrays");
      return leaves_[next_++];
    }
    if (!form.is_object() || form.size() != 1) fail(std::string("holds a ") + form.type_name() + " that is none");
    const auto entry = form.begin();
    const std::string& kind = entry.key();
    const Json& value = entry.value();
    if (kind == "fixed") return fixed(value);
    if (kind == "list" && value.is_array()) {
      std::vector<Tree> items;
      for (const Json& item : value) items.push_back(read(item, depth + 1));
      return Tree::list(std::move(items));
    }
    if (kind != "dict" || !value.is_object()) fail("holds the kind '" + kind.substr(0, 60) + "'");
    std::map<std::string, Tree> entries;
    for (const auto& [key, item] : value.items()) entries.emplace(key, read(item, depth + 1));
    return Tree::dict(std::move(entries));
  }
  void check_end() const {
    if (next_ != leaves_.size()) fail("has fewer leaves than there are arrays");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("[load_function] " + file_ + ": a structure of trees in manifest.json " + what);
  }

 private:
  Tree fixed(const Json& value) const {
    if (value.is_boolean()) return Tree(StaticValue(value.get<bool>()));
    if (value.is_number_integer()) return Tree(StaticValue(value.get<std::int64_t>()));
    if (value.is_number()) return Tree(StaticValue(value.get<double>()));
    if (value.is_string()) return Tree(StaticValue(value.get<std::string>()));
    fail(std::string("holds a static value that is a ") + value.type_name());
  }

  std::vector<Array> leaves_;
  const std::string& file_;
  std::size_t next_ = 0;
};

/// What is nested deeper than a Reader goes it refuses.
std::size_t count(const Json& form, int depth) {
  if (form == "leaf") return 1;
  std::size_t leaves = 0;
  if (form.is_structured() && depth <= 2 * deepest) {
    for (const Json& item : form) leaves += count(item, depth + 1);
  }
  return leaves;
}

}  // namespace

std::string tree_form(const Tree& tree) { return form_of(tree).dump(); }

Tree tree_of_form(std::string_view form, std::vector<Array> leaves, const std::string& file) {
  Reader reader(std::move(leaves), file);
  const Json parsed = Json::parse(form, nullptr, false);
  if (parsed.is_discarded()) reader.fail("is no JSON");
  Tree tree = reader.read(parsed, 0);
  reader.check_end();
  return tree;
}

std::size_t leaves_of_form(std::string_view form, const std::string& file) {
  const Json parsed = Json::parse(form, nullptr, false);
  const std::size_t leaves = parsed.is_discarded() ? 0 : count(parsed, 0);
  tree_of_form(form, std::vector<Array>(leaves), file);
  return leaves;
}

}  // namespace lockstep::exchange
