#include "engine/exchange/stablehlo/exporter.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/exchange/exported_function.h>
#include <lockstep/exchange/stablehlo.h>
#include <lockstep/random.h>

#include "engine/core/narrow_floats.h"
#include "engine/exchange/stablehlo/mlir.h"
#include "engine/ir/primitive.h"
#include "engine/ir/text/parse.h"
#include "engine/ops/call/implicit.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {

std::string tensor_type(const ArrayType& type) {
  std::string text = "tensor<";
  for (const std::int64_t extent : type.shape.dims()) text += std::to_string(extent) + "x";
  return text + mlir::element_name(type.dtype) + ">";
}

std::string array_attribute(const Integers& values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string list_attribute(const Integers& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::string pairs_attribute(const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  std::vector<std::string> texts;
  for (const auto& [low, high] : pairs) texts.push_back(fmt::format("[{}, {}]", low, high));
  return fmt::format("dense<[{}]> : tensor<{}x2xi64>", fmt::join(texts, ", "), pairs.size());
}

ArrayType written_type(const ArrayType& type) {
  return {type.dtype == DType::key ? DType::uint64 : type.dtype, type.shape, {}};
}

std::vector<ArrayType> types_of(const Terms& terms) {
  std::vector<ArrayType> types;
  for (const Term& term : terms) types.push_back(term.type);
  return types;
}

void Lowering::refuse(const std::string& why) const {
  throw IrError(fmt::format("[to_stablehlo] {}: {}", equation.primitive->name, why));
}

namespace {

/// "(a, b)" of names, "(t, u)" of types.
std::string listed_names(const Terms& terms) {
  std::vector<std::string_view> names;
  for (const Term& term : terms) names.push_back(term.name);
  return fmt::format("{}", fmt::join(names, ", "));
}
std::string listed_types(const std::vector<ArrayType>& types) {
  std::vector<std::string> texts;
  for (const ArrayType& type : types) texts.push_back(tensor_type(type));
  return fmt::format("({})", fmt::join(texts, ", "));
}
/// Of an argument or result of the function: a key as its words.
ArrayType argument_type(const ArrayType& type) {
  if (type.dtype != DType::key) return {type.dtype, type.shape, {}};
  Shape words = type.shape;
  words.append(2);
  return {DType::uint32, words, {}};
}

/// An element as dense<> has it: floats as their bits.
std::string element_text(double value, DType dtype) {
  switch (dtype) {
    case DType::float16:
      return fmt::format("0x{:04X}", float16_bits(value));
    case DType::bfloat16:
      return fmt::format("0x{:04X}", bfloat16_bits(value));
    case DType::float64:
      return fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(value));
    case DType::complex64:
      return "(" + element_text(value, DType::float32) + ", 0x00000000)";
    case DType::complex128:
      return "(" + element_text(value, DType::float64) + ", 0x0000000000000000)";
    default:
      return fmt::format("0x{:08X}", std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  }
}

/// The elements of an array: bytes as hexadecimal digits, but for booleans.
std::string elements_text(const Array& array) {
  std::string text;
  if (array.dtype() == DType::bool_) {
    for (const bool value : array.to_vector<bool>())
      text += std::string(text.empty() ? "" : ", ") + (value ? "true" : "false");
    return array.ndim() == 0 ? text : "[" + text + "]";
  }
  for (const std::byte byte : array.to_bytes()) text += fmt::format("{:02X}", std::to_integer<int>(byte));
  return "\"0x" + text + "\"";
}

}  // namespace

void Exporter::line(const std::string& text) {
  text_ += std::string(static_cast<std::size_t>(indent_), ' ') + text + "\n";
}

Terms Exporter::ops(std::string_view name, const Terms& operands, const std::vector<ArrayType>& types,
                    const std::string& attributes, const std::vector<std::string>& regions) {
  const std::string id = "%" + std::to_string(next_++);
  Terms results;
  for (std::size_t i = 0; i < types.size(); ++i) {
    results.push_back({types.size() == 1 ? id : id + "#" + std::to_string(i), types[i]});
  }
  std::string text = types.empty() ? "" : types.size() == 1 ? id + " = " : fmt::format("{}:{} = ", id, types.size());
  text += fmt::format("\"{}\"({})", name, listed_names(operands));
  if (!attributes.empty()) text += " <{" + attributes + "}>";
  if (!regions.empty()) text += fmt::format(" ({})", fmt::join(regions, ", "));
  line(text + " : " + listed_types(types_of(operands)) + " -> " +
       (types.size() == 1 ? tensor_type(types[0]) : listed_types(types)));
  return results;
}

Term Exporter::op(std::string_view name, const Terms& operands, const ArrayType& type, const std::string& attributes) {
  return ops(name, operands, {type}, attributes, {})[0];
}

std::string Exporter::region(const std::vector<ArrayType>& types, const std::function<Terms(const Terms&)>& write) {
  std::string outer = std::exchange(text_, "");
  indent_ += 2;
  Terms arguments;
  std::vector<std::string> declared;
  for (const ArrayType& type : types) {
    arguments.push_back({"%" + std::to_string(next_++), type});
    declared.push_back(arguments.back().name + ": " + tensor_type(type));
  }
  const Terms results = write(arguments);
  line("\"stablehlo.return\"(" + listed_names(results) + ") : " + listed_types(types_of(results)) + " -> ()");
  indent_ -= 2;
  const std::string margin(static_cast<std::size_t>(indent_), ' ');
  const std::string head = types.empty() ? "" : fmt::format("{}^bb0({}):\n", margin, fmt::join(declared, ", "));
  return "{\n" + head + std::exchange(text_, std::move(outer)) + margin + "}";
}

Term Exporter::splat(const ArrayType& type, double value) {
  return op("stablehlo.constant", {}, type,
            "value = dense<" + element_text(value, type.dtype) + "> : " + tensor_type(type));
}
Term Exporter::splat_integer(const ArrayType& type, std::int64_t value) {
  const std::string text = type.dtype == DType::bool_ ? (value != 0 ? "true" : "false") : std::to_string(value);
  return op("stablehlo.constant", {}, type, "value = dense<" + text + "> : " + tensor_type(type));
}
Term Exporter::zeros(const ArrayType& type) {
  return is_integer(type.dtype) || type.dtype == DType::bool_ ? splat_integer(type, 0) : splat(type, 0);
}
Term Exporter::reshape(const Term& x, const Integers& shape) {
  return op("stablehlo.reshape", {x}, {x.type.dtype, Shape(shape), {}});
}
Term Exporter::transpose(const Term& x, const Integers& permutation) {
  Shape shape;
  for (const std::int64_t d : permutation) shape.append(x.type.shape[static_cast<int>(d)]);
  return op("stablehlo.transpose", {x}, {x.type.dtype, shape, {}}, "permutation = " + array_attribute(permutation));
}
Term Exporter::swap_axes(const Term& x, int a, int b) {
  Integers order(static_cast<std::size_t>(x.type.shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  return transpose(x, order);
}
Term Exporter::broadcast(const Term& x, const Shape& shape, const Integers& dims) {
  return op("stablehlo.broadcast_in_dim", {x}, {x.type.dtype, shape, {}},
            "broadcast_dimensions = " + array_attribute(dims));
}
Term Exporter::convert(const Term& x, DType dtype) { return op("stablehlo.convert", {x}, {dtype, x.type.shape, {}}); }
Term Exporter::compare(std::string_view direction, const Term& a, const Term& b, bool total_order) {
  const std::string type = total_order ? "compare_type = #stablehlo<comparison_type TOTALORDER>, " : "";
  return op("stablehlo.compare", {a, b}, {DType::bool_, a.type.shape, {}},
            fmt::format("{}comparison_direction = #stablehlo<comparison_direction {}>", type, direction));
}
Term Exporter::select(const Term& predicate, const Term& a, const Term& b) {
  return op("stablehlo.select", {predicate, a, b}, a.type);
}
Term Exporter::iota(const ArrayType& type, std::int64_t dim) {
  return op("stablehlo.iota", {}, type, fmt::format("iota_dimension = {} : i64", dim));
}

Term Exporter::neutral(std::string_view name, DType dtype) {
  const ArrayType scalar{dtype, {}, {}};
  const bool is_max = name == "stablehlo.maximum", is_min = name == "stablehlo.minimum";
  const double infinity = std::numeric_limits<double>::infinity();
  if (dtype == DType::bool_)
    return splat_integer(scalar, name == "stablehlo.and" || name == "stablehlo.multiply" || is_min);
  if (!is_integer(dtype)) {
    return splat(scalar, is_max ? -infinity : is_min ? infinity : name == "stablehlo.multiply" ? 1 : 0);
  }
  if (is_max || is_min) {
    const auto bits = static_cast<int>(8 * size_of(dtype));
    const bool is_signed = !is_unsigned_integer(dtype);
    if (is_max) return splat_integer(scalar, is_signed ? std::numeric_limits<std::int64_t>::min() >> (64 - bits) : 0);
    const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max() >> (64 - bits + (is_signed ? 1 : 0));
    return op("stablehlo.constant", {}, scalar, fmt::format("value = dense<{}> : {}", largest, tensor_type(scalar)));
  }
  const bool is_and = name == "stablehlo.and";
  const bool unsigned_all = is_and && is_unsigned_integer(dtype);
  if (unsigned_all) {
    const std::uint64_t ones = std::numeric_limits<std::uint64_t>::max() >> (64 - 8 * size_of(dtype));
    return op("stablehlo.constant", {}, scalar, fmt::format("value = dense<{}> : {}", ones, tensor_type(scalar)));
  }
  return splat_integer(scalar, is_and ? -1 : name == "stablehlo.multiply" ? 1 : 0);
}

Term Exporter::reduce(std::string_view name, const Term& x, const Integers& axes) {
  Shape shape;
  for (int d = 0; d < x.type.shape.rank(); ++d) {
    if (std::ranges::find(axes, d) == axes.end()) shape.append(x.type.shape[d]);
  }
  const ArrayType scalar{x.type.dtype, {}, {}};
  const Term start = neutral(name, x.type.dtype);
  const std::string combine =
      region({scalar, scalar}, [&](const Terms& pair) { return Terms{binary(name, pair[0], pair[1])}; });
  return ops("stablehlo.reduce", {x, start}, {{x.type.dtype, shape, {}}}, "dimensions = " + array_attribute(axes),
             {combine})[0];
}

Term Exporter::reduce_windows(const Term& x, const ArrayType& type, const std::string& attributes, const Term& start,
                              const std::function<Term(const Term&, const Term&)>& combine) {
  const ArrayType scalar{x.type.dtype, {}, {}};
  const std::string block =
      region({scalar, scalar}, [&](const Terms& pair) { return Terms{combine(pair[0], pair[1])}; });
  return ops("stablehlo.reduce_window", {x, start}, {type}, attributes, {block})[0];
}

Term Exporter::dot(const Term& a, const Term& b, const std::vector<Integers>& contract,
                   const std::vector<Integers>& batch, const ArrayType& type) {
  return op(
      "stablehlo.dot_general", {a, b}, type,
      fmt::format("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {}, rhs_batching_dimensions = {}, "
                  "lhs_contracting_dimensions = {}, rhs_contracting_dimensions = {}>",
                  list_attribute(batch[0]), list_attribute(batch[1]), list_attribute(contract[0]),
                  list_attribute(contract[1])));
}

Terms Exporter::equation(const ir::Function& function, const ir::Equation& equation, const Terms& operands) {
  LoweringRule rule = nullptr;
  for (const auto& family : {element_wise_rule, shape_rule, reduction_rule, product_rule, attention_rule, linalg_rule,
                             indexing_rule, control_flow_rule, random_rule}) {
    if (rule == nullptr) rule = family(*equation.primitive);
  }
  std::set<ir::Var> uses(function.outputs().begin(), function.outputs().end());
  if (equation.outputs.size() > 1) {
    for (const ir::Equation& other : function.equations()) uses.insert(other.inputs.begin(), other.inputs.end());
  }
  Lowering lowering{*this, equation, operands, {}, {}};
  for (const ir::Var output : equation.outputs) {
    lowering.types.push_back(written_type(function.type(output)));
    lowering.used.push_back(uses.contains(output));
  }
  if (rule == nullptr) {
    lowering.refuse("it is not written as StableHLO; export a function without it, such as the model's prediction");
  }
  return rule(lowering);
}

Terms Exporter::body(const ir::Function& function, const Terms& inputs) {
  std::map<ir::Var, Term> terms;
  for (std::size_t i = 0; i < inputs.size(); ++i) terms[function.inputs()[i]] = inputs[i];
  for (const ir::Equation& next : function.equations()) {
    Terms operands;
    for (const ir::Var v : next.inputs) operands.push_back(terms.at(v));
    Terms results = equation(function, next, operands);
    for (std::size_t i = 0; i < results.size(); ++i) terms[next.outputs[i]] = results[i];
  }
  Terms outputs;
  for (const ir::Var v : function.outputs()) outputs.push_back(terms.at(v));
  return outputs;
}

std::string Exporter::module(const ir::Function& function, const std::vector<Array>& constants) {
  if (!function.axes().empty())
    throw IrError("[to_stablehlo] the body of a map has no form in StableHLO; export a whole function");
  Terms inputs;
  std::vector<std::string> declared;
  const std::size_t given = function.inputs().size() - constants.size();
  for (std::size_t i = 0; i < given; ++i) {
    const ArrayType& type = function.type(function.inputs()[i]);
    const Term argument{fmt::format("%arg{}", i), argument_type(type)};
    declared.push_back(argument.name + ": " + tensor_type(argument.type));
    inputs.push_back(type.dtype == DType::key ? bitcast(argument, written_type(type)) : argument);
  }
  for (const Array& constant : constants) inputs.push_back(captured(constant));
  Terms outputs = body(function, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ArrayType& type = function.type(function.outputs()[i]);
    if (type.dtype == DType::key) outputs[i] = bitcast(outputs[i], argument_type(type));
  }
  line("func.return " + listed_names(outputs) + " : " + [&] {
    const std::string types = listed_types(types_of(outputs));
    return types.substr(1, types.size() - 2);
  }());
  return fmt::format("module @lockstep {{\n  func.func public @main({}) -> {} {{\n{}  }}\n}}\n",
                     fmt::join(declared, ", "), listed_types(types_of(outputs)), text_);
}

Term Exporter::captured(const Array& constant) {
  const bool is_key = constant.dtype() == DType::key;
  const ArrayType type = argument_type({constant.dtype(), constant.shape(), {}});
  const Array words = is_key ? random::key_data(constant) : constant;
  const std::string elements = type.shape.size() == 0 ? "" : elements_text(words);
  const bool nested = type.dtype == DType::bool_ && type.shape.rank() > 1;
  const ArrayType flat{type.dtype, Shape{type.shape.size()}, {}};
  const Term written = op("stablehlo.constant", {}, nested ? flat : type,
                          "value = dense<" + elements + "> : " + tensor_type(nested ? flat : type));
  if (is_key) return bitcast(written, written_type({DType::key, constant.shape(), {}}));
  return nested ? reshape(written, type.shape.to_vector()) : written;
}

std::string to_stablehlo(const Function& function) {
  const ir::FunctionPtr program = ir::parse(function.to_string(), ops::find_in_text);
  return Exporter().module(*program, lockstep::detail::captured_arrays(function));
}

}  // namespace lockstep::exchange
