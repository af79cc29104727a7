#include "engine/ir/control_flow.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/sub_function.h"
#include "engine/partition/derivative_rules.h"
#include "engine/partition/write.h"

// Equations with sub-functions on blocks.
namespace lockstep::partition {

ir::FunctionPtr BlockWriter::body_of(const Analysis& body, std::span<const ValueLayout> outputs, std::int64_t times,
                                     const ir::Equation* reader) {
  ir::Builder builder(mesh());
  std::vector<Value> inputs;
  for (const ir::Var v : body.function->inputs()) {
    inputs.emplace_back(builder, builder.input(block_type(body.function->type(v), body.layout(v), mesh())));
  }
  const std::vector<Value> values =
      BlockWriter(builder, body, setting_, moves_, times).write(inputs, outputs, {}, reader);
  std::vector<ir::Var> vars;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ArrayType type = block_type(body.function->type(body.function->outputs()[i]), outputs[i], mesh());
    vars.push_back(builder.pvary(values[i].var(), type.varying));
  }
  return builder.finish(std::move(vars));
}

std::vector<Value> BlockWriter::with_bodies(const ir::Equation& equation, const EquationPlan& plan) {
  if (equation.primitive == &ops::primitives::scan()) return scan(equation, plan);
  if (equation.primitive == &ops::primitives::while_loop()) return while_loop(equation, plan);
  if (equation.primitive == &ops::primitives::cond()) return cond(equation, plan);
  return call(equation, plan);
}

namespace {

ValueLayout without_leading(ValueLayout layout) {
  layout.cuts.erase(layout.cuts.begin());
  return layout;
}

}  // namespace

std::vector<Value> BlockWriter::scan(const ir::Equation& equation, const EquationPlan& plan) {
  ir::Scan loop = ir::Scan::of(equation.attrs);
  std::vector<ValueLayout> outputs;
  for (std::size_t k = 0; k < plan.resolution.results.size(); ++k) {
    const ValueLayout& layout = plan.resolution.results[k];
    outputs.push_back(k < loop.carries ? layout : without_leading(layout));
  }
  std::vector<Value> operands = operands_of(equation, plan.resolution);
  loop.body = body_of(*plan.bodies[0], outputs, times_ * loop.length, &equation);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i] = as_input(operands[i], loop.body->type(loop.body->inputs()[i]));
  }
  return ops::sub_function::apply_to(builder_, *equation.primitive, operands, loop.attrs());
}

std::vector<Value> BlockWriter::while_loop(const ir::Equation& equation, const EquationPlan& plan) {
  ir::WhileLoop loop = ir::WhileLoop::of(equation.attrs);
  std::vector<Value> operands = operands_of(equation, plan.resolution);
  const std::vector<ValueLayout> predicate = {whole(0)};
  loop.cond = body_of(*plan.bodies[0], predicate, times_, &equation);
  loop.body = body_of(*plan.bodies[1], plan.resolution.results, times_, &equation);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_of_cond = i < loop.cond_consts;
    const ir::Function& taker = is_of_cond ? *loop.cond : *loop.body;
    operands[i] = as_input(operands[i], taker.type(taker.inputs()[is_of_cond ? i : i - loop.cond_consts]));
  }
  return ops::sub_function::apply_to(builder_, *equation.primitive, operands, loop.attrs());
}

std::vector<Value> BlockWriter::cond(const ir::Equation& equation, const EquationPlan& plan) {
  ir::Cond choice = ir::Cond::of(equation.attrs);
  std::vector<Value> operands = operands_of(equation, plan.resolution);
  for (std::size_t i = 0; i < choice.branches.size(); ++i) {
    choice.branches[i] = body_of(*plan.bodies[i], plan.resolution.results, times_, &equation);
  }
  for (std::size_t i = 1; i < operands.size(); ++i) {
    operands[i] = as_input(operands[i], choice.branches[0]->type(choice.branches[0]->inputs()[i - 1]));
  }
  return ops::sub_function::apply_to(builder_, *equation.primitive, operands, choice.attrs());
}

/// Written out in place, but for what a derivative has to find: a checkpoint, whose body a backward pass computes again,
/// and calls with rules of their own.
std::vector<Value> BlockWriter::call(const ir::Equation& equation, const EquationPlan& plan) {
  std::vector<Value> operands = operands_of(equation, plan.resolution);
  const Analysis& body = *plan.bodies[0];
  const bool has_rule = has_derivative_rule(equation);
  if (!has_rule && equation.primitive != &ops::primitives::checkpoint()) {
    BlockWriter inner(builder_, body, setting_, moves_, times_);
    return inner.write(operands, plan.resolution.results);
  }
  const ir::FunctionPtr block = body_of(body, plan.resolution.results, times_, &equation);
  Attrs attrs = has_rule ? rules_on_blocks(equation, plan.resolution, partitioner_of_rules()) : equation.attrs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i] = as_input(operands[i], block->type(block->inputs()[i]));
  }
  return ops::sub_function::apply_to(builder_, *equation.primitive, operands,
                                     attrs.with("body", ops::sub_function::attribute(block)));
}

/// What a rule moves is in no plan, and refused by nobody, as only a derivative runs it.
Partitioner BlockWriter::partitioner_of_rules() const {
  return [this](const ir::FunctionPtr& function, const std::vector<ValueLayout>& inputs,
                const std::vector<std::optional<ValueLayout>>& outputs) {
    const Analysis analysis = analyze(function, inputs, wishes_for(outputs), setting_);
    std::vector<ValueLayout> layouts = settled_outputs(analysis, outputs);
    const Options none;
    Moves unlisted(mesh(), none);
    const ir::FunctionPtr blocks = BlockWriter(builder_, analysis, setting_, unlisted, 1).body_of(analysis, layouts, 1);
    return OnBlocks{blocks, std::move(layouts)};
  };
}

}  // namespace lockstep::partition
