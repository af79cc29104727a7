#include "engine/exchange/stablehlo/importer.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/exchange/stablehlo.h>
#include <lockstep/function.h>
#include <lockstep/traced_types.h>
#include <lockstep/tree.h>

#include "engine/exchange/stablehlo/element_wise.h"
#include "engine/exchange/stablehlo/scanner.h"

namespace lockstep::exchange {
namespace {

constexpr int deepest_call = 100;
constexpr std::int64_t most_ops = 1'000'000;

[[noreturn]] void fail(std::int64_t line, const std::string& what) {
  throw IrError(fmt::format("[from_stablehlo] line {}: {}", line, what));
}

const std::vector<Array>& find_value(const Values& values, const std::string& name, std::int64_t line) {
  for (const Values* at = &values; at != nullptr; at = at->outer) {
    if (const auto found = at->arrays.find(name); found != at->arrays.end()) return found->second;
  }
  fail(line, "%" + name + " is used before it is defined");
}

std::vector<Array> operands_of(const mlir::Op& op, const Values& values) {
  std::vector<Array> arrays;
  for (const mlir::Use& use : op.operands) {
    const std::vector<Array>& found = find_value(values, use.name, op.line);
    if (use.index >= found.size()) fail(op.line, fmt::format("%{} has no result {}", use.name, use.index));
    arrays.push_back(found[use.index]);
  }
  return arrays;
}

bool is_return(const mlir::Op& op) { return op.name == "func.return" || op.name == "stablehlo.return"; }

void check_results(const mlir::Op& op, const std::vector<Array>& results) {
  if (op.results > 0 && results.size() != op.results) {
    fail(op.line, fmt::format("'{}' gives {} values, the text says {}", op.name, results.size(), op.results));
  }
  if (op.result_types.empty()) return;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ArrayType& stated = op.result_types[std::min(i, op.result_types.size() - 1)];
    if (results[i].dtype() == stated.dtype && results[i].shape() == stated.shape) continue;
    fail(op.line,
         fmt::format("'{}' gives {}, the text says {}", op.name, to_string(results[i].type()), to_string(stated)));
  }
}

}  // namespace

Importer::Importer(const std::vector<mlir::Func>& funcs) : funcs_(funcs) {
  for (const mlir::Func& func : funcs) {
    if (by_name_.emplace(func.name, &func).second) continue;
    const std::int64_t line = func.body.ops.empty() ? 1 : func.body.ops[0].line;
    fail(line, "two functions are called @" + func.name + "; expected one of each name; rename one of them");
  }
}

const mlir::Func& Importer::entry() const {
  if (const auto found = by_name_.find("main"); found != by_name_.end()) return *found->second;
  const mlir::Func* only = nullptr;
  for (const mlir::Func& func : funcs_) {
    if (!func.is_public) continue;
    if (only != nullptr) fail(1, "several public functions, and none is called main; name one so");
    only = &func;
  }
  if (only == nullptr)
    fail(1, "no public function; expected the text of a module, as jax.export's mlir_module() gives it");
  return *only;
}

const mlir::Func& Importer::func(const std::string& name, const mlir::Op& op) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) fail(op.line, "the module has no function @" + name);
  return *found->second;
}

std::vector<Array> Importer::call(const mlir::Func& func, const std::vector<Array>& arguments, std::int64_t line) {
  if (++depth_ > deepest_call)
    fail(line, fmt::format("@{} is called more than {} deep, or by itself", func.name, deepest_call));
  std::vector<Array> results = run(func.body, arguments, nullptr);
  --depth_;
  return results;
}

std::vector<Array> Importer::run(const mlir::Region& region, const std::vector<Array>& arguments, const Values* outer) {
  Values values{.outer = outer, .arrays = {}, .origins = {}};
  if (arguments.size() != region.arguments.size()) {
    const std::int64_t line = region.ops.empty() ? 1 : region.ops[0].line;
    fail(line, fmt::format("a region of {} arguments is given {}", region.arguments.size(), arguments.size()));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) values.arrays[region.arguments[i]] = {arguments[i]};
  for (const mlir::Op& op : region.ops) {
    if (is_return(op)) return operands_of(op, values);
    if (++applied_ > most_ops) fail(op.line, fmt::format("more than {} ops", most_ops));
    std::vector<Array> results = apply_at_line(op, values);
    check_results(op, results);
    if (op.result.empty()) continue;
    for (std::size_t i = 0; i < op.further_results.size(); ++i) values.arrays[op.further_results[i]] = {results[i + 1]};
    values.arrays[op.result] = std::move(results);
    values.origins[op.result] = &op;
  }
  fail(region.ops.empty() ? 1 : region.ops.back().line, "a region does not return");
}

std::vector<Array> Importer::apply_at_line(const mlir::Op& op, const Values& values) {
  try {
    return apply(op, values);
  } catch (const IrError&) {
    throw;  // It has the line.
  } catch (const Error& error) {
    fail(op.line, "'" + op.name + "': " + error.what());
  }
}

std::vector<Array> Importer::apply(const mlir::Op& op, const Values& values) {
  const OpCall call{*this, op, values, operands_of(op, values)};
  std::string name = op.name == "stablehlo.composite" ? op.symbol : op.name;
  if (!call.operands.empty()) name = logical_name(name, call.operands[0].dtype());
  const bool is_integer_power = name == "stablehlo.power" && is_integer(call.operand(0).dtype());
  if (const SharedOp* shared = is_integer_power ? nullptr : find_shared(element_wise_ops(), name)) {
    std::vector<Array> operands = call.operands;
    if (operands.size() == 3 && operands[0].ndim() == 0 && operands[1].ndim() > 0) {  // select by a scalar
      operands[0] = broadcast_to(operands[0], operands[1].shape());
    }
    return shared->stage(operands, {});
  }
  for (const auto& family :
       {apply_shape_op, apply_reduction, apply_product, apply_linalg, apply_indexing, apply_control_flow, apply_rng}) {
    std::vector<Array> results = family(call);
    if (!results.empty()) return results;
  }
  if (op.name == "stablehlo.custom_call") {
    call.refuse("custom_call @" + op.symbol + " is code that the text does not hold; export a program without it");
  }
  call.refuse("there is no such op here; write what it is for with other ops before it is exported");
}

void OpCall::refuse(const std::string& what) const { fail(op.line, "'" + op.name + "': " + what); }

const Array& OpCall::operand(std::size_t i) const {
  if (i >= operands.size()) refuse(fmt::format("operand {} is missing", i));
  return operands[i];
}

const ArrayType& OpCall::result() const {
  if (op.result_types.empty()) refuse("its type is missing");
  return op.result_types[0];
}

const mlir::Attribute* OpCall::find(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (const auto found = op.attributes.find(name); found != op.attributes.end()) return &found->second;
    for (const char* outer : {"dimension_numbers", "dim_numbers", "dot_dimension_numbers", "scatter_dimension_numbers",
                              "window", "composite_attributes"}) {
      const auto attribute = op.attributes.find(outer);
      if (attribute == op.attributes.end()) continue;
      const auto& entries = attribute->second.entries;
      if (const auto found = entries.find(name); found != entries.end()) return &found->second;
    }
  }
  return nullptr;
}

Axes integers_of(const mlir::Attribute& attribute, std::int64_t line) {
  Axes read;
  if (attribute.kind == mlir::Attribute::Kind::list) {
    for (const mlir::Attribute& item : attribute.items) {
      const Axes inner = integers_of(item, line);
      read.insert(read.end(), inner.begin(), inner.end());
    }
    return read;
  }
  if (attribute.kind == mlir::Attribute::Kind::dense) {
    return dense_integers(attribute, line);
  }
  if (attribute.text == "true" || attribute.text == "false") return {attribute.text == "true" ? 1 : 0};
  std::int64_t value = 0;
  const char *begin = attribute.text.data(), *end = begin + attribute.text.size();
  if (std::from_chars(begin, end, value).ptr != end || attribute.text.empty()) {
    fail(line, "'" + attribute.text + "' is no whole number");
  }
  return {value};
}

Axes OpCall::integers(std::initializer_list<const char*> names, const Axes& fallback) const {
  const mlir::Attribute* found = find(names);
  return found == nullptr ? fallback : integers_of(*found, op.line);
}

std::int64_t OpCall::integer(std::initializer_list<const char*> names, std::int64_t fallback) const {
  const Axes found = integers(names, {fallback});
  if (found.size() != 1) refuse(fmt::format("{} is no one number", *names.begin()));
  return found[0];
}

std::vector<std::pair<std::int64_t, std::int64_t>> OpCall::pairs(std::initializer_list<const char*> names,
                                                                 int count) const {
  const auto wanted = static_cast<std::size_t>(count);
  Axes found = integers(names, Axes(2 * wanted, 0));
  if (found.size() == 1) found.assign(2 * wanted, found[0]);  // dense<0>
  if (found.size() != 2 * wanted) refuse(fmt::format("{} is not a pair for each dimension", *names.begin()));
  std::vector<std::pair<std::int64_t, std::int64_t>> read;
  for (std::size_t i = 0; i < wanted; ++i) read.emplace_back(found[2 * i], found[2 * i + 1]);
  return read;
}

std::string OpCall::combiner(const mlir::Region& region) const {
  const std::vector<std::string> returned = dataflow(*this, region);
  if (region.arguments.size() == 2 && returned.size() == 1) {
    if (returned[0] == "#1") return "";
    for (const char* arguments : {"(#0,#1)", "(#1,#0)"}) {
      const std::string& text = returned[0];
      const std::size_t name = text.find(arguments);
      if (name == std::string::npos || text.find('(') != name || !text.ends_with(arguments)) continue;
      return logical_name("stablehlo." + text.substr(0, name), operand(0).dtype());
    }
  }
  return "a function of its own";
}

std::optional<double> constant_float(const OpCall& call, const std::string& name) {
  for (const Values* at = &call.values; at != nullptr; at = at->outer) {
    if (!at->arrays.contains(name)) continue;
    const auto origin = at->origins.find(name);
    if (origin == at->origins.end() || origin->second->name != "stablehlo.constant") return std::nullopt;
    const OpCall constant{call.importer, *origin->second, *at, {}};
    const mlir::Attribute* value = constant.find({"value"});
    return value == nullptr ? std::nullopt : dense_float(*value, constant.result(), call.op.line);
  }
  return std::nullopt;
}

Function from_stablehlo(std::string_view text) {
  const std::vector<mlir::Func> funcs = mlir::parse_module(text);
  Importer importer(funcs);
  const mlir::Func& entry = importer.entry();
  return lockstep::detail::trace_at(
      [&](const std::vector<Tree>& arguments) {
        std::vector<Array> arrays;
        for (const Tree& argument : arguments) arrays.push_back(argument.array());
        std::vector<Tree> results;
        for (const Array& result : importer.call(entry, arrays, 1)) results.emplace_back(result);
        return Tree::list(std::move(results));
      },
      entry.body.types);
}

}  // namespace lockstep::exchange
