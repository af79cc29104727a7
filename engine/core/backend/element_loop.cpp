#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include <lockstep/backend/element_loop.h>

#include "engine/core/stable_hash.h"

namespace lockstep::backend {
namespace {

template <class T>
std::string list(const std::vector<T>& values) {
  std::string text;
  for (const int value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

}  // namespace

ElementLoop::ElementLoop(std::vector<Operand> operands, std::vector<Instruction> instructions,
                         std::vector<Result> results)
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
  for (const Result& result : results_) {
    hash.add(static_cast<std::uint64_t>(result.value));
    hash.add(result.sum_over.size());
    for (const std::int64_t d : result.sum_over) hash.add(static_cast<std::uint64_t>(d));
  }
  hash_ = hash.value();
}

DType ElementLoop::dtype(int value) const {
  const auto v = static_cast<std::size_t>(value);
  return v < operands_.size() ? operands_[v].dtype : instructions_[v - operands_.size()].dtype;
}

bool ElementLoop::has_sums() const {
  return std::ranges::any_of(results_, [](const Result& result) { return !result.sum_over.empty(); });
}

Shape ElementLoop::shape(std::span<const ArrayType> inputs, std::span<const ArrayType> outputs) const {
  for (std::size_t r = 0; r < results_.size(); ++r) {
    if (results_[r].sum_over.empty()) return outputs[r].shape;
  }
  std::vector<std::int64_t> extents(static_cast<std::size_t>(outputs[0].shape.rank()) + results_[0].sum_over.size(), 1);
  for (std::size_t k = 0; k < operands_.size(); ++k) {
    for (std::size_t d = 0; d < operands_[k].dims.size(); ++d) {
      const std::int64_t extent = inputs[k].shape[static_cast<int>(d)];
      if (extent != 1) extents[static_cast<std::size_t>(operands_[k].dims[d])] = extent;
    }
  }
  return Shape(extents);
}

std::string ElementLoop::label() const {
  std::vector<std::string_view> ops;
  std::string text;
  int arithmetic = 0;
  for (const Instruction& instruction : instructions_) {
    if (instruction.operands.empty()) continue;  // a constant
    ++arithmetic;
    if (std::ranges::count(ops, instruction.op) != 0) continue;
    ops.push_back(instruction.op);
    text += (text.empty() ? "" : ", ") + instruction.op;
  }
  if (has_sums()) {
    ++arithmetic;
    text += text.empty() ? "reduce_sum" : ", reduce_sum";
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
  text += " ->";
  for (const Result& result : results_) {
    text += " " + std::to_string(result.value);
    if (!result.sum_over.empty()) text += "[sum over " + list(result.sum_over) + "]";
  }
  return text + " }";
}

std::optional<SumAsMatrix> sum_as_matrix(const Shape& shape, std::span<const std::int64_t> axes) {
  std::string sides;  // of each dimension that counts: s for summed, k for kept
  std::vector<int> dims;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    sides += std::ranges::count(axes, d) != 0 ? 's' : 'k';
    dims.push_back(d);
  }
  const std::size_t summed = std::ranges::count(sides, 's');
  const std::size_t kept = sides.size() - summed;
  if (axes.empty() || summed == 0) return std::nullopt;
  if (sides == std::string(kept, 'k') + std::string(summed, 's')) {
    return SumAsMatrix{SumAsMatrix::Kind::rows, kept == 0 ? 0 : dims[kept - 1] + 1};
  }
  if (sides != std::string(summed, 's') + std::string(kept, 'k')) return std::nullopt;
  return SumAsMatrix{SumAsMatrix::Kind::columns, dims[summed - 1] + 1};
}

const ElementLoop* element_loop(const Attrs& attrs) {
  const AttrValue* value = attrs.find("loop");
  const auto* object = value == nullptr ? nullptr : std::get_if<std::shared_ptr<const AttrObject>>(value);
  return object == nullptr ? nullptr : dynamic_cast<const ElementLoop*>(object->get());
}

}  // namespace lockstep::backend
