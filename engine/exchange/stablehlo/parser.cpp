#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/exchange/stablehlo/mlir.h"
#include "engine/exchange/stablehlo/scanner.h"

// MLIR's language reference (https://mlir.llvm.org/docs/LangRef), and the pretty forms of StableHLO's ops. These are read
// by one rule: words before ':' are operands, attributes (`name = value`), symbols or plain words, in any order.

namespace lockstep::exchange::mlir {
namespace {

constexpr int deepest_nesting = 64;

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text) {}

  std::vector<Func> module() {
    while (!in_.at_end()) {
      if (in_.peek() == '#') {  // an alias, of locations alone
        in_.skip_line();
      } else if (in_.accept_word("module")) {
        if (in_.peek() == '@') in_.name_after('@');
        if (in_.accept_word("attributes")) dict(0);
        in_.expect("{");
        while (!in_.accept("}")) member();
        location();
      } else {
        member();
      }
    }
    return std::move(funcs_);
  }

 private:
  /// A function, a module, or a mesh: sdy.mesh @mesh = <["x"=1]>. Where an array lies on a mesh is no part of its values.
  void member() {
    if (!in_.accept_word("sdy.mesh")) return add(op(0));
    in_.name_after('@');
    in_.expect("=");
    in_.expect("<");
    in_.up_to_closing();
    if (in_.peek() == '{') dict(0);
    location();
  }
  /// Ops of a module count where they are functions, or modules.
  void add(Op op) {
    if (op.name == "sdy.mesh") return;
    if (op.name == "builtin.module") {
      for (Region& region : op.regions) {
        for (Op& inner : region.ops) add(std::move(inner));
      }
    } else if (op.name == "func.func" && op.regions.size() == 1) {
      const auto name = op.attributes.find("sym_name");
      const auto visibility = op.attributes.find("sym_visibility");
      funcs_.push_back({name == op.attributes.end() ? op.symbol : name->second.text,
                        visibility == op.attributes.end() || visibility->second.text == "public",
                        std::move(op.regions[0])});
    } else {
      in_.fail("'" + op.name + "' stands in a module, where functions are expected");
    }
  }

  void location() {
    if (in_.accept_word("loc")) in_.skip_parentheses();
  }

  /// Of attributes of a custom_call elements may be of the type `index`.
  ArrayType type(bool of_attribute = false) {
    if (!in_.accept_word("tensor")) in_.expect("tensor<");
    in_.expect("<");
    const std::string text = in_.up_to_closing();
    ArrayType read;
    std::string_view rest = text;
    while (!rest.empty() && (rest[0] == '?' || (rest[0] >= '0' && rest[0] <= '9'))) {
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
      if (error != std::errc() || end == rest.data() + rest.size() || *end != 'x') {
        in_.fail("the type tensor<" + text + "> has a dimension that is no number; export at fixed shapes");
      }
      if (read.shape.rank() == Shape::max_rank) in_.fail("the type tensor<" + text + "> has too many dimensions");
      read.shape.append(extent);
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
    }
    check_size(read.shape, text);
    const std::string_view element = rest.substr(0, rest.find(','));
    const bool is_index = of_attribute && element == "index";
    const std::optional<DType> dtype = is_index ? DType::int64 : element_type(element);
    if (!dtype) in_.fail("element type '" + std::string(element.substr(0, 40)) + "' is none that there is here");
    read.dtype = *dtype;
    return read;
  }
  void check_size(const Shape& shape, const std::string& text) {
    std::int64_t count = 1;
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape[d] > (std::int64_t{1} << 40) || (shape[d] != 0 && count > (std::int64_t{1} << 40) / shape[d])) {
        in_.fail("the type tensor<" + text + "> has too many elements");
      }
      count *= shape[d];
    }
  }

  /// Types in parentheses, with attributes and locations, or one type.
  std::vector<ArrayType> types() {
    if (!in_.accept("(")) return {type()};
    std::vector<ArrayType> read;
    while (!in_.accept(")")) {
      read.push_back(type());
      if (in_.peek() == '{') dict(0);
      location();
      in_.accept(",");
    }
    return read;
  }
  /// What stands behind ':': the results' types are those behind "->", or the last one.
  std::vector<ArrayType> signature() {
    if (in_.peek() == '(') {
      std::vector<ArrayType> operands = types();
      return in_.accept("->") ? types() : operands;
    }
    std::vector<ArrayType> read = {type()};
    while (in_.accept(",")) read.push_back(type());
    return in_.accept("->") ? types() : read;
  }

  Attribute list(int depth) {
    Attribute read{.kind = Attribute::Kind::list};
    in_.expect("[");
    while (!in_.accept("]")) {
      read.items.push_back(value(depth + 1, true));
      in_.accept(",");
    }
    while (in_.next_is("x[") || in_.next_is("x [") || in_.next_is("->[") || in_.next_is("-> [")) {
      if (!in_.accept("->")) in_.expect("x");
      read.chained.push_back(list(depth + 1));
      for (Attribute& further : std::exchange(read.chained.back().chained, {}))
        read.chained.push_back(std::move(further));
    }
    return read;
  }
  Attribute dict(int depth) {
    Attribute read{.kind = Attribute::Kind::dict};
    in_.expect("{");
    while (!in_.accept("}")) {
      entry(read, depth);
      in_.accept(",");
    }
    return read;
  }
  void entry(Attribute& read, int depth) {
    const std::string name = in_.peek() == '"' ? in_.string() : in_.word();
    read.entries[name] = in_.accept("=") ? value(depth + 1, true) : Attribute{.text = "true"};
  }
  /// "#stablehlo.gather<offset_dims = [1], ...>", "#stablehlo<comparison_direction LT>", "#stablehlo.conv<[b]x[o]->[b]>".
  Attribute dialect_attribute(int depth) {
    Attribute read{.kind = Attribute::Kind::dict, .text = in_.name_after('#')};
    if (!in_.accept("<")) return read;
    if (read.text.starts_with("sdy.")) {
      in_.up_to_closing();
      return read;
    }
    while (!in_.accept(">")) {
      if (in_.peek() == '[') {
        read.items.push_back(list(depth + 1));
      } else if (in_.next_is_word()) {
        const std::string name = in_.word();
        if (in_.accept("=")) {
          read.entries[name] = value(depth + 1, true);
        } else {
          read.text = name;  // the last word is the one that says something
        }
      } else {
        value(depth + 1, true);
      }
      in_.accept(",");
    }
    return read;
  }

  /// `typed`: a ':' behind it is its type's, not the op's.
  Attribute value(int depth, bool typed) {
    if (depth > deepest_nesting) in_.fail("attributes are nested too deep");
    switch (in_.peek()) {
      case '[':
        return list(depth);
      case '{':
        return dict(depth);
      case '"':
        return {.text = in_.string()};
      case '@':
        return {.text = in_.name_after('@')};
      case '#':
        return dialect_attribute(depth);
      case '<':  // of an attribute whose kind the op knows, such as how exact a product must be
        in_.expect("<");
        in_.up_to_closing();
        return {};
      default:
        break;
    }
    if (in_.next_is_number()) {
      Attribute read{.text = in_.number()};
      if (typed && in_.accept(":") && in_.next_is_number()) {  // a range of a slice, 0:3 or 0:4:2
        read.items.push_back({.text = in_.number()});
        if (in_.accept(":")) read.items.push_back({.text = in_.number()});
      } else if (typed && in_.next_is_word()) {
        in_.word();
      }
      return read;
    }
    if (in_.next_is("(")) {  // a function's type
      in_.skip_parentheses();
      if (in_.accept("->")) in_.peek() == '(' ? in_.skip_parentheses() : static_cast<void>(type());
      return {};
    }
    if (in_.next_is("tensor<")) {
      type();
      return {};
    }
    return word_value(typed);
  }
  Attribute word_value(bool typed) {
    Attribute read{.text = in_.word()};
    if (read.text == "dense") {
      in_.expect("<");
      read.kind = Attribute::Kind::dense;
      read.text = in_.up_to_closing();
      if (typed && in_.accept(":")) read.type = type(true);
    } else if (read.text == "array") {
      in_.expect("<");
      const std::string text = in_.up_to_closing();
      Scanner elements(text);
      elements.word();
      read.kind = Attribute::Kind::list;
      if (elements.accept(":")) {
        while (!elements.at_end()) {
          read.items.push_back({.text = elements.next_is_word() ? elements.word() : elements.number()});
          elements.accept(",");
        }
      }
    } else if (in_.next_is("<")) {
      in_.expect("<");
      in_.up_to_closing();
    }
    return read;
  }

  Use use() {
    Use read{in_.name_after('%')};
    if (in_.next_is("#")) {
      in_.expect("#");
      read.index = static_cast<std::size_t>(std::stoul("0" + in_.number().substr(0, 8)));
    }
    return read;
  }

  Region region(int depth, std::vector<std::string> arguments = {}) {
    if (depth > deepest_nesting) in_.fail("regions are nested too deep");
    Region read;
    read.arguments = std::move(arguments);
    in_.expect("{");
    if (in_.peek() == '^') {
      in_.name_after('^');
      if (in_.peek() == '(') block_arguments(read);
      in_.expect(":");
    }
    while (!in_.accept("}")) read.ops.push_back(op(depth + 1));
    return read;
  }
  void block_arguments(Region& read) {
    in_.expect("(");
    while (!in_.accept(")")) {
      read.arguments.push_back(in_.name_after('%'));
      in_.expect(":");
      read.types.push_back(type());
      if (in_.peek() == '{') dict(0);
      location();
      in_.accept(",");
    }
  }

  Op op(int depth) {
    Op read;
    read.line = in_.line();
    if (in_.peek() == '%') {
      read.result = in_.name_after('%');
      read.results = 1;
      if (in_.accept(":")) read.results = static_cast<std::size_t>(std::stoul("0" + in_.number().substr(0, 8)));
      while (in_.accept(",")) read.further_results.push_back(in_.name_after('%'));
      read.results += read.further_results.size();
      in_.expect("=");
    }
    if (in_.peek() == '"') {
      read.name = in_.string();
      generic(read, depth);
    } else {
      read.name = in_.word();
      if (read.name == "call" || read.name == "return") read.name = "func." + read.name;
      if (read.name == "func.func") {
        function(read, depth);
      } else if (read.name == "stablehlo.while") {
        loop(read, depth);
      } else {
        pretty(read, depth);
      }
    }
    location();
    return read;
  }

  void generic(Op& read, int depth) {
    in_.expect("(");
    while (!in_.accept(")")) {
      read.operands.push_back(use());
      in_.accept(",");
    }
    if (in_.accept("<")) {
      read.attributes = dict(0).entries;
      in_.expect(">");
    }
    if (in_.accept("(")) {
      while (!in_.accept(")")) {
        read.regions.push_back(region(depth + 1));
        in_.accept(",");
      }
    }
    if (in_.peek() == '{') read.attributes.merge(dict(0).entries);
    in_.expect(":");
    read.result_types = signature();
    for (const char* name : {"callee", "call_target_name", "name"}) {
      if (const auto found = read.attributes.find(name); found != read.attributes.end())
        read.symbol = found->second.text;
    }
  }

  void function(Op& read, int depth) {
    read.attributes["sym_visibility"].text = in_.accept_word("private") ? "private" : "public";
    in_.accept_word("public");
    read.symbol = in_.name_after('@');
    Region arguments;
    block_arguments(arguments);
    if (in_.accept("->")) read.result_types = types();
    if (in_.accept_word("attributes")) dict(0);
    if (in_.peek() != '{') in_.fail("function @" + read.symbol + " has no body");
    Region body = region(depth + 1, arguments.arguments);
    body.types = arguments.types;
    read.regions.push_back(std::move(body));
  }

  void loop(Op& read, int depth) {
    std::vector<std::string> arguments;
    in_.expect("(");
    while (!in_.accept(")")) {
      arguments.push_back(in_.name_after('%'));
      in_.expect("=");
      read.operands.push_back(use());
      in_.accept(",");
    }
    if (in_.accept(":")) read.result_types = signature();
    if (in_.accept_word("attributes")) dict(0);
    if (!in_.accept_word("cond")) in_.expect("cond");
    read.regions.push_back(region(depth + 1, arguments));
    if (!in_.accept_word("do")) in_.expect("do");
    read.regions.push_back(region(depth + 1, arguments));
  }

  void pretty(Op& read, int depth) {
    std::vector<Use> inits;
    while (!in_.accept(":")) {
      const char c = in_.peek();
      if (c == '\0' || c == '}' || in_.next_is("loc(")) return;
      if (c == '%') {
        read.operands.push_back(use());
        if (in_.accept_word("init")) {
          in_.expect(":");
          inits.push_back(use());
        }
      } else if (c == '@') {
        read.symbol = in_.name_after('@');
      } else if (c == '"') {
        read.symbol = in_.string();
      } else if (c == '[') {
        read.attributes[""] = list(0);
      } else if (c == '{') {
        read.attributes.merge(dict(0).entries);
      } else if (c == '<' && read.name.starts_with("sdy.")) {
        in_.expect("<");
        in_.up_to_closing();
      } else if (c == '#') {
        read.words.push_back(dialect_attribute(0).text);
      } else if (in_.next_is_word()) {
        pretty_word(read);
      } else if (!in_.accept(",") && !in_.accept("(") && !in_.accept(")")) {
        in_.fail("'" + read.name + "' is written in a form that is not known here");
      }
    }
    read.operands.insert(read.operands.end(), inits.begin(), inits.end());
    read.result_types = signature();
    // Of operands' types and the result's the last is the result's.
    if (read.results == 1 && read.result_types.size() > 1) read.result_types = {read.result_types.back()};
    if (in_.accept_word("reducer")) reducer(read, depth);
  }
  void pretty_word(Op& read) {
    if (in_.next_is("dense")) {
      read.attributes["value"] = value(0, false);
      return;
    }
    const std::string word = in_.word();
    if (in_.accept("=")) {
      read.attributes[word] = value(0, false);
    } else {
      read.words.push_back(word);
    }
  }
  /// Pairs of arguments, (left and right of an operand) each; a region has all left ones first.
  void reducer(Op& read, int depth) {
    std::vector<std::string> left, right;
    while (in_.peek() == '(') {
      Region pair;
      block_arguments(pair);
      if (pair.arguments.size() != 2) in_.fail("a reducer takes pairs of arguments");
      left.push_back(pair.arguments[0]);
      right.push_back(pair.arguments[1]);
    }
    left.insert(left.end(), right.begin(), right.end());
    read.regions.push_back(region(depth + 1, left));
  }

  Scanner in_;
  std::vector<Func> funcs_;
};

}  // namespace

std::vector<Func> parse_module(std::string_view text) { return Parser(text).module(); }

}  // namespace lockstep::exchange::mlir
