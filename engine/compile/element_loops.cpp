#include "engine/compile/element_loops.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "engine/compile/program.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"

namespace lockstep::compile {
namespace {

class LoopWriter {
 public:
  explicit LoopWriter(const ir::Function& body) : body_(body), shape_(body.type(body.outputs().at(0)).shape) {
    for (const ir::Equation& e : body.equations()) {
      if (!ir::is_loop_sum(e.primitive, e.attrs)) continue;
      sums_.emplace(e.outputs[0], &e);
      if (e.outputs[0] == body.outputs()[0]) shape_ = body.type(e.inputs[0]).shape;
    }
  }

  LoweredLoop run() {
    find_operands();
    for (const ir::Equation& e : body_.equations()) write(e);
    std::vector<ElementLoop::Result> results;
    for (const ir::Var v : body_.outputs()) {
      const auto sum = sums_.find(v);
      if (sum == sums_.end()) {
        results.push_back({values_.at(v), {}});
      } else {
        results.push_back({values_.at(sum->second->inputs[0]), sum->second->attrs.get<Dims>("axes")});
      }
    }
    LoweredLoop lowered;
    lowered.inputs = inputs_;
    const auto is_of_all = [&](const auto& sum) { return body_.type(sum.first).size() == 1; };
    lowered.is_flat = std::ranges::all_of(sums_, is_of_all) && std::ranges::all_of(inputs_, [&](std::size_t i) {
                        const ArrayType& type = body_.type(body_.inputs()[i]);
                        return type.shape == shape_ || type.size() == 1;
                      });
    lowered.loop =
        std::make_shared<const ElementLoop>(std::move(operands_), std::move(instructions_), std::move(results));
    return lowered;
  }

 private:
  /// Operands come first: inputs that are read as they are, and broadcasts of inputs.
  void find_operands() {
    std::map<ir::Var, std::size_t> input_of;
    for (std::size_t i = 0; i < body_.inputs().size(); ++i) {
      const ir::Var v = body_.inputs()[i];
      input_of[v] = i;
      if (body_.type(v).shape != shape_) continue;
      Dims dims(static_cast<std::size_t>(shape_.rank()));
      std::iota(dims.begin(), dims.end(), 0);
      add_operand(v, i, std::move(dims));
    }
    for (const ir::Equation& e : body_.equations()) {
      if (e.primitive != &ops::primitives::broadcast_in_dim()) continue;
      add_operand(e.outputs[0], input_of.at(e.inputs[0]), e.attrs.get<Dims>("dims"));
    }
  }

  void add_operand(ir::Var v, std::size_t input, Dims dims) {
    values_[v] = static_cast<int>(operands_.size());
    operands_.push_back({body_.type(v).dtype, std::move(dims)});
    inputs_.push_back(input);
  }

  void write(const ir::Equation& e) {
    using namespace ops::primitives;
    if (e.primitive == &broadcast_in_dim() || ir::is_loop_sum(e.primitive, e.attrs)) return;
    if (e.primitive == &pvary()) {
      values_[e.outputs[0]] = values_.at(e.inputs[0]);
      return;
    }
    ElementLoop::Instruction instruction{e.primitive->name, e.attrs, body_.type(e.outputs[0]).dtype, {}};
    if (e.primitive == &full()) instruction.attrs = {{"value", e.attrs.at("value")}};
    for (const ir::Var v : e.inputs) instruction.operands.push_back(values_.at(v));
    values_[e.outputs[0]] = static_cast<int>(operands_.size() + instructions_.size());
    instructions_.push_back(std::move(instruction));
  }

  const ir::Function& body_;
  Shape shape_;
  std::map<ir::Var, const ir::Equation*> sums_;  // by result
  std::map<ir::Var, int> values_;
  std::vector<ElementLoop::Operand> operands_;
  std::vector<std::size_t> inputs_;
  std::vector<ElementLoop::Instruction> instructions_;
};

}  // namespace

LoweredLoop lower_loop(const ir::Function& body) { return LoopWriter(body).run(); }

std::shared_ptr<const ElementLoop> flattened(const ElementLoop& loop, const std::vector<bool>& is_full) {
  std::vector<ElementLoop::Operand> operands = loop.operands();
  for (std::size_t k = 0; k < operands.size(); ++k) operands[k].dims = is_full[k] ? Dims{0} : Dims{};
  std::vector<ElementLoop::Result> results = loop.results();
  for (ElementLoop::Result& result : results) {
    if (!result.sum_over.empty()) result.sum_over = {0};
  }
  return std::make_shared<const ElementLoop>(std::move(operands), loop.instructions(), std::move(results));
}

}  // namespace lockstep::compile
