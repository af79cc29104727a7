#include "engine/partition/partition.h"

#include <algorithm>
#include <map>

#include "engine/ir/rewrite.h"
#include "engine/ir/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/partition/write.h"

namespace lockstep::partition {

namespace {

/// Axes of one replica cut nothing.
ValueLayout without_single(ValueLayout layout, const ir::AxisSizes& mesh) {
  for (CutAxes& axes : layout.cuts) {
    std::erase_if(axes, [&](const std::string& axis) { return mesh.size(axis, "partition") == 1; });
  }
  return layout;
}

/// Dimension `first` and the `count` - 1 behind it as one.
Value merged(const Value& x, std::int64_t first, std::int64_t count) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    const bool is_merged = d > first && d < first + count;
    shape = is_merged ? shape.with(static_cast<int>(first), shape[static_cast<int>(first)] * x.shape()[d])
                      : shape.insert(shape.rank(), x.shape()[d]);
  }
  return ops::reshape(x, shape);
}

/// Sums over several dimensions taken one after the other, the last one first, those side by side as one: layouts may cut
/// any of them, and each is taken by blocks of its own.
ir::FunctionPtr with_single_sums(const ir::FunctionPtr& function) {
  const auto rule = [](ir::Builder& builder, const ir::Equation& equation,
                       std::span<const ir::Var> inputs) -> std::optional<std::vector<ir::Var>> {
    if (equation.primitive != &ops::primitives::reduce_sum()) {
      if (ir::sub_functions(equation.attrs).empty()) return std::nullopt;
      const ir::Equation inner = ir::map_sub_functions(equation, with_single_sums);
      return builder.apply(*inner.primitive, inputs, inner.attrs);
    }
    ops::Dims axes = equation.attrs.get<ops::Dims>("axes");
    if (axes.size() < 2) return std::nullopt;
    std::ranges::sort(axes);
    Value x(builder, inputs[0]);
    while (!axes.empty()) {
      const std::int64_t last = axes.back();
      std::int64_t first = last;
      for (axes.pop_back(); !axes.empty() && axes.back() == first - 1; axes.pop_back()) --first;
      x = ops::reduce_sum(merged(x, first, last - first + 1), {first});
    }
    return std::vector{x.var()};
  };
  return ir::rewrite(*function, rule);
}

}  // namespace

Partitioned partition(const ir::FunctionPtr& whole_function, const ir::AxisSizes& mesh, std::vector<ValueLayout> inputs,
                      std::vector<std::optional<ValueLayout>> outputs, const Options& options) {
  const Setting setting{mesh, options.contraction_blocks};
  const ir::FunctionPtr function = setting.contraction_blocks > 0 ? with_single_sums(whole_function) : whole_function;
  for (ValueLayout& layout : inputs) layout = without_single(std::move(layout), mesh);
  WantedOutputs wanted;
  for (std::optional<ValueLayout>& layout : outputs) {
    if (layout) layout = without_single(*std::move(layout), mesh);
    wanted.push_back(layout ? std::optional(wish_for(*layout)) : std::nullopt);
  }
  const Analysis analysis = analyze(function, inputs, wanted, setting);

  Partitioned result;
  result.inputs = inputs;
  for (std::size_t i = 0; i < function->outputs().size(); ++i) {
    ValueLayout free = analysis.layout(function->outputs()[i]);
    free.sums = {};
    result.outputs.push_back(outputs[i].value_or(std::move(free)));
  }
  ir::Builder builder(mesh);
  std::vector<Value> blocks;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    blocks.emplace_back(builder, builder.input(block_type(function->type(function->inputs()[i]), inputs[i], mesh)));
  }
  Moves moves(mesh, options);
  const std::vector<Value> values =
      BlockWriter(builder, analysis, setting, moves, 1).write(blocks, result.outputs, options.output_names);
  std::vector<ir::Var> vars;
  for (std::size_t i = 0; i < values.size(); ++i) {
    vars.push_back(builder.pvary(values[i].var(), result.outputs[i].cutting()));
  }
  result.body = builder.finish(std::move(vars));
  result.moves = std::move(moves.list());
  return result;
}

}  // namespace lockstep::partition
