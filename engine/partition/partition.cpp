#include "engine/partition/partition.h"

#include <algorithm>
#include <map>
#include <memory>

#include "engine/ops/primitives.h"
#include "engine/partition/sums_in_one_order.h"
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

}  // namespace

Partitioned partition(const ir::FunctionPtr& whole_function, const ir::AxisSizes& mesh, std::vector<ValueLayout> inputs,
                      std::vector<std::optional<ValueLayout>> outputs, const Options& options) {
  const Setting setting{mesh, options.contraction_blocks, std::make_shared<AnalyzedBodies>()};
  const ir::FunctionPtr function =
      setting.contraction_blocks > 0 ? sums_in_one_order(whole_function, setting) : whole_function;
  for (ValueLayout& layout : inputs) layout = without_single(std::move(layout), mesh);
  for (std::optional<ValueLayout>& layout : outputs) {
    if (layout) layout = without_single(*std::move(layout), mesh);
  }
  const Analysis analysis = analyze(function, inputs, wishes_for(outputs), setting);

  Partitioned result;
  result.inputs = inputs;
  result.outputs = settled_outputs(analysis, outputs);
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
