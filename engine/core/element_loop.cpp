#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include <lockstep/element_loop.h>

#include "engine/core/hash.h"

namespace lockstep {
namespace {

constexpr unsigned real = 1;     // float32
constexpr unsigned integer = 2;  // int32
constexpr unsigned natural = 4;  // uint32
constexpr unsigned truth = 8;    // bool
constexpr unsigned word = integer | natural;

unsigned class_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return real;
    case DType::int32:
      return integer;
    case DType::uint32:
      return natural;
    case DType::bool_:
      return truth;
    default:
      return 0;
  }
}

/// The classes that operands may have, of ops whose result has their dtype.
unsigned operands_of(std::string_view op) {
  static const std::map<std::string_view, unsigned> table = {
      {"abs", real},
      {"add", real | word},
      {"bitwise_and", word | truth},
      {"bitwise_not", word | truth},
      {"bitwise_or", word | truth},
      {"bitwise_xor", word | truth},
      {"ceil", real},
      {"div", real},
      {"erf", real},
      {"exp", real},
      {"expm1", real},
      {"floor", real},
      {"fma", real},
      {"integer_pow", real},
      {"log", real},
      {"log1p", real},
      {"logistic", real},
      {"maximum", real | integer | truth},
      {"minimum", real | integer | truth},
      {"mul", real | word},
      {"neg", real | word},
      {"round", real},
      {"rsqrt", real},
      {"select", real | word | truth},
      {"shift_left", word},
      {"shift_right_arithmetic", word},
      {"shift_right_logical", word},
      {"sign", real},
      {"sqrt", real},
      {"sub", real | word},
      {"tanh", real},
  };
  const auto found = table.find(op);
  return found == table.end() ? 0 : found->second;
}

/// The same of comparisons.
unsigned compared_by(std::string_view op) {
  if (op == "equal" || op == "not_equal") return real | word | truth;
  if (op == "less" || op == "less_equal" || op == "greater" || op == "greater_equal") return real | integer;
  return op == "is_finite" ? real : 0;
}

std::string list(const std::vector<int>& values) {
  std::string text;
  for (const int value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

}  // namespace

ElementLoop::ElementLoop(std::vector<Operand> operands, std::vector<Instruction> instructions, std::vector<int> results)
    : operands_(std::move(operands)), instructions_(std::move(instructions)), results_(std::move(results)) {
  StableHash hash;
  for (const Operand& operand : operands_) {
    hash.add(static_cast<std::uint64_t>(operand.dtype));
    hash.add(operand.dims.size());
    for (const std::int64_t d : operand.dims) hash.add(static_cast<std::uint64_t>(d));
  }
  for (const Instruction& instruction : instructions_) {
    hash.add(instruction.op);
    hash.add(instruction.attrs.hash());
    hash.add(static_cast<std::uint64_t>(instruction.dtype));
    for (const int v : instruction.operands) hash.add(static_cast<std::uint64_t>(v));
  }
  for (const int v : results_) hash.add(static_cast<std::uint64_t>(v));
  hash_ = hash.value();
}

DType ElementLoop::dtype(int value) const {
  const auto v = static_cast<std::size_t>(value);
  return v < operands_.size() ? operands_[v].dtype : instructions_[v - operands_.size()].dtype;
}

std::string ElementLoop::label() const {
  std::vector<std::string_view> ops;
  std::string text;
  int arithmetic = 0;
  for (const Instruction& instruction : instructions_) {
    if (instruction.op == "full") continue;
    ++arithmetic;
    if (std::ranges::count(ops, instruction.op) != 0) continue;
    ops.push_back(instruction.op);
    text += (text.empty() ? "" : ", ") + instruction.op;
  }
  return arithmetic == 1 ? text : "fused(" + text + ")";
}

bool ElementLoop::equals(const AttrObject& other) const {
  const auto* loop = dynamic_cast<const ElementLoop*>(&other);
  return loop != nullptr && hash_ == loop->hash_ && operands_ == loop->operands_ &&
         instructions_ == loop->instructions_ && results_ == loop->results_;
}

std::string ElementLoop::print(int /*indent*/) const {
  std::string text = "{";
  std::size_t number = 0;
  for (const Operand& operand : operands_) {
    text += " " + std::to_string(number++) + ":" + std::string(short_name(operand.dtype)) +
            to_string(AttrValue(operand.dims));
  }
  for (const Instruction& instruction : instructions_) {
    text += "; " + std::to_string(number++) + ":" + std::string(short_name(instruction.dtype)) + " = " + instruction.op;
    if (!instruction.attrs.empty()) text += "[" + to_string(instruction.attrs) + "]";
    if (!instruction.operands.empty()) text += " " + list(instruction.operands);
  }
  return text + " -> " + list(results_) + " }";
}

bool can_stand_in_a_loop(std::string_view op, DType operand, DType result) {
  const unsigned from = class_of(operand);
  const unsigned to = class_of(result);
  if (from == 0 || to == 0) return false;
  if (op == "select" && from == truth) return true;
  if (op == "convert") return (from != natural || to != real) && (from != real || to != natural);
  if (op == "bitcast_convert") return from != truth && to != truth;
  if (to == truth && (compared_by(op) & from) != 0) return true;
  return from == to && (operands_of(op) & from) != 0;
}

const ElementLoop* element_loop(const Attrs& attrs) {
  const AttrValue* value = attrs.find("loop");
  const auto* object = value == nullptr ? nullptr : std::get_if<std::shared_ptr<const AttrObject>>(value);
  return object == nullptr ? nullptr : dynamic_cast<const ElementLoop*>(object->get());
}

}  // namespace lockstep
