#include <string>
#include <vector>

#include "engine/core/lists.h"
#include "engine/eval/blocks.h"
#include "engine/eval/evaluator.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/collective/map_rules.h"
#include "engine/ops/collective/map_types.h"

namespace lockstep::ops::collective {

namespace {

using eval::BufferPtr;
using eval::Shards;
using ir::PerShard;

AxisSet axes_that_cut(const Layout& layout) { return AxisSet(axes_of_layout(layout)); }

eval::Block block_of(const ArrayType& whole, const ArrayType& part, const Layout& layout, const Shards& shards,
                     std::int64_t shard) {
  std::vector<std::int64_t> offset = repeated(whole.shape.rank());
  for (std::size_t d = 0; d < offset.size() && d < layout.size(); ++d) {
    const std::int64_t block = block_of_dimension(
        layout[d], shards.axes(), "pmap", [&](const std::string& axis) { return shards.coordinate(shard, axis); });
    offset[d] = block * part.shape[static_cast<int>(d)];
  }
  return {whole.shape, part.shape, Shape(offset), size_of(whole.dtype)};
}

PerShard cut(const backend::Backend& backend, const ArrayType& whole, const ArrayType& part, const Layout& layout,
             const Shards& shards, const BufferPtr& operand) {
  const AxisSet axes = axes_that_cut(layout);
  return shards.share<BufferPtr>(axes, [&](std::int64_t shard) {
    if (axes.empty()) return operand;
    BufferPtr local = eval::allocate(backend, part);
    eval::cut_block(block_of(whole, part, layout, shards, shard), operand->data(), local->data());
    return local;
  });
}

BufferPtr assemble(const backend::Backend& backend, const ArrayType& whole, const ArrayType& part, const Layout& layout,
                   const Shards& shards, const PerShard& values) {
  const AxisSet axes = axes_that_cut(layout);
  if (axes.empty()) return values.front();
  BufferPtr result = eval::allocate(backend, whole);
  for (std::int64_t shard = 0; shard < shards.count(); ++shard) {
    if (shards.representative(shard, axes) != shard) continue;
    eval::place_block(block_of(whole, part, layout, shards, shard), nth(values, shard)->data(), result->data());
  }
  return result;
}

std::vector<BufferPtr> mapped_whole(const eval::Evaluator& evaluator, const ir::Equation& equation,
                                    std::span<const ArrayType> output_types, std::span<const ArrayType> input_types,
                                    std::span<const BufferPtr> operands) {
  const ir::FunctionPtr body = ir::sub_function(equation.attrs, "body");
  const auto& in = equation.attrs.get<std::vector<Layout>>("in");
  const auto& out = equation.attrs.get<std::vector<Layout>>("out");
  const Shards shards(body->axes());
  std::vector<PerShard> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(
        cut(evaluator.backend(), input_types[i], body->type(body->inputs().at(i)), in.at(i), shards, operands[i]));
  }
  const std::vector<PerShard> values = evaluator.run(*body, shards, std::move(inputs));
  std::vector<BufferPtr> results;
  for (std::size_t k = 0; k < values.size(); ++k) {
    results.push_back(
        assemble(evaluator.backend(), output_types[k], body->type(body->outputs()[k]), out.at(k), shards, values[k]));
  }
  return results;
}

}  // namespace

std::vector<PerShard> evaluate_map(const ir::EvaluateContext& context) {
  const auto& [evaluator, function, equation, shards, operands] = context;
  const std::vector<ArrayType> input_types = eval::types_of(function, equation.inputs);
  const std::vector<ArrayType> output_types = eval::types_of(function, equation.outputs);
  AxisSet varying;
  for (const ArrayType& type : input_types) varying = varying.joined(type.varying);
  const auto rows = shards.share<std::vector<BufferPtr>>(varying, [&](std::int64_t shard) {
    std::vector<BufferPtr> arguments;
    for (const PerShard& operand : operands) arguments.push_back(nth(operand, shard));
    return mapped_whole(evaluator, equation, output_types, input_types, arguments);
  });
  return eval::by_output(rows, output_types.size());
}

}  // namespace lockstep::ops::collective
