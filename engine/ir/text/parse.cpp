#include "engine/ir/text/parse.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <lockstep/error.h>

#include "engine/core/checked_sizes.h"
#include "engine/core/quoting.h"
#include "engine/ir/primitive.h"
#include "engine/ir/text/scanner.h"
#include "engine/ir/verify.h"

namespace lockstep::ir {

namespace {

constexpr int deepest_nesting = 64;

bool has_axis(const std::vector<AxisSizes::Axis>& axes, std::string_view name) {
  return std::ranges::any_of(axes, [&](const AxisSizes::Axis& axis) { return axis.name == name; });
}

using Names = std::set<std::string, std::less<>>;

/// Attributes that equations of an op have: those of its samples, and of effects the one that orders them.
Names attribute_names(const Primitive& primitive) {
  Names names;
  for (const Sample& sample : primitive.samples()) {
    for (const Attrs::Entry& entry : sample.attrs.entries()) names.insert(std::string(entry.name));
  }
  if (primitive.traits.effect) names.emplace("ordered");
  return names;
}

/// The same, made once.
const Names& known_attributes(const Primitive& primitive) {
  static std::mutex mutex;
  static std::map<const Primitive*, Names>& known = *new std::map<const Primitive*, Names>;
  const std::lock_guard lock(mutex);
  const auto found = known.find(&primitive);
  return found != known.end() ? found->second : known.emplace(&primitive, attribute_names(primitive)).first->second;
}

/// "an attribute of slice: one of limit, start, strides".
std::string attributes_text(const Primitive& primitive) {
  const Names& known = known_attributes(primitive);
  std::string text = "an attribute of " + std::string(primitive.name);
  for (const std::string& name : known) text += (&name == &*known.begin() ? ": one of " : ", ") + name;
  return known.empty() ? "']', since " + std::string(primitive.name) + " has no attributes" : text;
}

class Parser {
 public:
  Parser(Scanner& scanner, const PrimitiveLookup& lookup) : in_(scanner), lookup_(lookup) {}

  FunctionPtr function();

 private:
  // Names live in one function; functions nest.
  struct Scope {
    std::map<std::string, Var> names;
    std::vector<ArrayType> types;
  };

  AxisSizes bound_axes();
  Shape shape();
  ArrayType type();
  Var definition(Scope& scope);
  Var use(const Scope& scope);
  char after_next_word();
  bool is_definition();
  bool is_operand();
  Equation equation(Scope& scope);
  Attrs attributes(const Primitive& primitive);

  AttrValue value();
  AttrValue value_in_braces();
  AttrValue number();
  AttrValue nan(bool negative);
  AttrValue word_value();
  AttrValue lists();
  std::vector<std::int64_t> integers();
  std::vector<std::string> words();

  Scanner& in_;
  const PrimitiveLookup& lookup_;
  int depth_ = 0;
};

// ---- types

Shape Parser::shape() {
  const std::vector<std::int64_t> dims = integers();
  try {
    return Shape(dims);
  } catch (const ShapeError& error) {
    in_.fail(std::string("a shape (") + error.what() + ")");
  }
}

ArrayType Parser::type() {
  ArrayType result;
  const std::string text = in_.word("a dtype");
  try {
    result.dtype = parse_dtype(text);
  } catch (const DtypeError& error) {
    in_.fail(std::string("a dtype (") + error.what() + ")");
  }
  result.shape = shape();
  if (in_.peek_raw() == '{') result.varying = AxisSet(words());
  try {
    check_size("an array", result);
  } catch (const ShapeError& error) {
    in_.fail(std::string("a type (") + error.what() + ")");
  }
  return result;
}

std::vector<std::int64_t> Parser::integers() {
  std::vector<std::int64_t> result;
  in_.expect("[", "before integers");
  if (in_.take("]")) return result;
  do {
    result.push_back(in_.integer("an integer"));
  } while (in_.take(","));
  in_.expect("]", "after integers");
  return result;
}

std::vector<std::string> Parser::words() {
  std::vector<std::string> result;
  in_.expect("{", "before names");
  if (in_.take("}")) return result;
  do {
    result.push_back(in_.word_or_quoted("a name"));
  } while (in_.take(","));
  in_.expect("}", "after names");
  return result;
}

// ---- attribute values

AttrValue Parser::nan(bool negative) {
  std::uint64_t bits = 0x7ff8000000000000U;
  if (in_.peek_raw() == ':') {
    in_.take(":");
    bits = static_cast<std::uint64_t>(in_.integer("the bits of a NaN"));
  }
  if (!std::isnan(std::bit_cast<double>(bits))) in_.fail("the bits of a NaN before this");
  return std::bit_cast<double>(bits | (negative ? std::uint64_t{1} << 63 : 0));
}

AttrValue Parser::number() {
  const bool negative = in_.peek() == '-';
  if (in_.take("-inf")) return -std::numeric_limits<double>::infinity();
  if (in_.take("-nan")) return nan(negative);
  const std::string_view text = in_.number_text();
  if (text.find_first_of(".e") == std::string_view::npos) return in_.integer("an integer of 64 bits");
  double result = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc() || end != text.data() + text.size()) in_.fail("a number");
  in_.set_position(in_.position() + text.size());
  return result;
}

AttrValue Parser::word_value() {
  const std::size_t start = in_.position();
  std::string first = in_.word("a value");
  if (first == "true" || first == "false") return first == "true";
  if (first == "inf") return std::numeric_limits<double>::infinity();
  if (first == "nan") return nan(false);
  if (is_reserved_word(first)) return parse_dtype(first);
  std::vector<std::string> list{std::move(first)};
  while (in_.peek_raw() == ',') {
    in_.take(",");
    list.push_back(in_.word("a name"));
  }
  for (const std::string& name : list) {
    if (is_bare_word(name) && !is_reserved_word(name)) continue;
    in_.set_position(start);
    in_.fail("a value, or names; " + quoted(name) + " needs braces in a list");
  }
  return list;
}

AttrValue Parser::lists() {
  in_.expect("(", "before lists");
  if (in_.take(")")) return std::vector<std::vector<std::int64_t>>();
  if (in_.peek() == '{') {
    std::vector<std::vector<std::string>> result;
    do {
      result.push_back(words());
    } while (in_.take(","));
    in_.expect(")", "after lists");
    return result;
  }
  std::vector<std::vector<std::int64_t>> result;
  do {
    result.push_back(integers());
  } while (in_.take(","));
  in_.expect(")", "after lists");
  return result;
}

AttrValue Parser::value_in_braces() {
  const std::size_t start = in_.position();
  if (in_.take("{()}")) return std::vector<std::vector<std::string>>();
  in_.expect("{", "before a list or a function");
  const bool is_function = in_.peek_raw() == ' ' && in_.take("lambda");
  in_.set_position(start);
  if (is_function) return std::static_pointer_cast<const AttrObject>(function());
  return words();
}

AttrValue Parser::value() {
  const char first = in_.peek_raw();
  if (first == '"') return in_.quoted_string();
  if (first == '[') return integers();
  if (first == '(') return lists();
  if (first == '{') return value_in_braces();
  if (first == '-' || first == '.' || (first >= '0' && first <= '9')) return number();
  return word_value();
}

Attrs Parser::attributes(const Primitive& primitive) {
  Attrs result;
  in_.expect("[", "before attributes");
  while (!in_.take("]")) {
    in_.skip_space();
    const std::size_t start = in_.position();
    const std::string name = in_.word("an attribute's name or ']'");
    if (result.has(name)) in_.fail("another attribute: " + quoted(name) + " is given twice");
    if (primitive.samples && !known_attributes(primitive).contains(name)) {
      in_.set_position(start);
      in_.fail(attributes_text(primitive) + "; it has no " + quoted(name));
    }
    in_.expect("=", "after an attribute's name");
    result = result.with(name, value());
  }
  return result;
}

// ---- functions

AxisSizes Parser::bound_axes() {
  std::vector<AxisSizes::Axis> axes;
  std::int64_t replicas = 1;
  if (!in_.take("[")) return AxisSizes();
  while (!in_.take("]")) {
    std::string name = in_.word_or_quoted("an axis name or ']'");
    in_.expect("=", "after an axis name");
    const std::int64_t size = in_.integer("an axis size");
    if (name.empty() || has_axis(axes, name)) {
      in_.fail("a new axis name: " + quoted(name) + " is empty or bound twice");
    }
    if (size < 1 || size > most_replicas / replicas) {
      in_.fail("axes of sizes of 1 or more, of " + std::to_string(most_replicas) + " replicas at most");
    }
    replicas *= size;
    axes.push_back({std::move(name), size});
  }
  in_.expect(";", "after the bound axes");
  return AxisSizes(std::move(axes));
}

Var Parser::definition(Scope& scope) {
  const std::string name = in_.word("a var");
  in_.expect(":", "after a var that is defined");
  const Var v{static_cast<std::uint32_t>(scope.types.size())};
  if (!scope.names.emplace(name, v).second) in_.fail("a new name: " + quoted(name) + " is already defined");
  scope.types.push_back(type());
  return v;
}

Var Parser::use(const Scope& scope) {
  in_.skip_space();
  const std::size_t start = in_.position();
  const std::string name = in_.word("a var");
  const auto place = scope.names.find(name);
  if (place != scope.names.end()) return place->second;
  in_.set_position(start);
  in_.fail("a var that is defined; " + quoted(name) + " is not");
}

// "in" and "let" are names, too: what follows the word decides.
char Parser::after_next_word() {
  const std::size_t start = in_.position();
  const char first = in_.peek();
  char result = '\0';
  if (first >= 'a' && first <= 'z') {
    const std::string name = in_.word("a var");
    result = in_.peek_raw() == ':' ? ':' : name == "in" && in_.peek() == '(' ? '(' : ' ';
  }
  in_.set_position(start);
  return result;
}

bool Parser::is_definition() { return after_next_word() == ':'; }
bool Parser::is_operand() { return after_next_word() == ' '; }

Equation Parser::equation(Scope& scope) {
  Equation result;
  while (is_definition()) result.outputs.push_back(definition(scope));
  in_.expect("=", "after the outputs of an equation");
  in_.skip_space();
  const std::size_t start = in_.position();
  const std::string name = in_.word("an op");
  result.primitive = lookup_(name);
  if (result.primitive == nullptr) {
    in_.set_position(start);
    if (name == "custom_call") {
      in_.fail("an op of the library: a custom op is C++ code, which no text holds; trace the function that calls it");
    }
    in_.fail("an op; there is no op " + quoted(name));
  }
  if (in_.peek_raw() == '[') result.attrs = attributes(*result.primitive);
  while (is_operand()) result.inputs.push_back(use(scope));
  return result;
}

FunctionPtr Parser::function() {
  if (++depth_ > deepest_nesting) in_.fail("at most " + std::to_string(deepest_nesting) + " nested functions");
  Scope scope;
  in_.expect("{", "before a function");
  in_.expect("lambda", "before a function's inputs");
  AxisSizes axes = bound_axes();
  std::vector<Var> inputs;
  while (!in_.take(".")) inputs.push_back(definition(scope));
  std::vector<Equation> equations;
  const bool has_equations = in_.take("let");
  while (has_equations && (is_definition() || in_.peek() == '=')) equations.push_back(equation(scope));
  in_.expect("in", "before the outputs");
  in_.expect("(", "before the outputs");
  std::vector<Var> outputs;
  while (!in_.take(")")) {
    outputs.push_back(use(scope));
    if (!in_.take(",") && in_.peek() != ')') in_.fail("',' or ')' after an output");
  }
  in_.expect("}", "after a function");
  --depth_;
  return std::make_shared<const Function>(std::move(axes), std::move(scope.types), std::move(inputs),
                                          std::move(equations), std::move(outputs));
}

}  // namespace

FunctionPtr parse(std::string_view text, const PrimitiveLookup& lookup) {
  Scanner scanner(text);
  FunctionPtr result = Parser(scanner, lookup).function();
  if (!scanner.at_end()) scanner.fail("nothing after the function");
  verify(*result);
  return result;
}

}  // namespace lockstep::ir
