#include "engine/eval/eval.h"

#include <cstring>

#include <lockstep/error.h>

#include "engine/core/lists.h"
#include "engine/eval/collectives.h"
#include "engine/eval/evaluator.h"
#include "engine/ir/primitive.h"
#include "engine/ir/text/print.h"

namespace lockstep::eval {

namespace {

// For each equation the vars that nothing reads afterwards.
std::vector<std::vector<ir::Var>> last_reads(const ir::Function& function) {
  std::vector<bool> read(function.types().size());
  for (const ir::Var v : function.outputs()) read[v.id] = true;
  std::vector<std::vector<ir::Var>> result(function.equations().size());
  for (std::size_t i = result.size(); i-- > 0;) {
    const ir::Equation& equation = function.equations()[i];
    for (const std::vector<ir::Var>* vars : {&equation.inputs, &equation.outputs}) {
      for (const ir::Var v : *vars) {
        if (!read[v.id]) result[i].push_back(v);
        read[v.id] = true;
      }
    }
  }
  return result;
}

}  // namespace

std::vector<ArrayType> types_of(const ir::Function& function, std::span<const ir::Var> vars) {
  std::vector<ArrayType> types;
  for (const ir::Var v : vars) types.push_back(function.type(v));
  return types;
}

std::vector<ir::PerShard> by_output(const std::vector<std::vector<BufferPtr>>& by_shard, std::size_t outputs) {
  std::vector<ir::PerShard> results(outputs);
  for (const std::vector<BufferPtr>& row : by_shard) {
    for (std::size_t k = 0; k < outputs; ++k) results[k].push_back(row[k]);
  }
  return results;
}

std::vector<ir::PerShard> Evaluator::run(const ir::Function& function, const Shards& shards,
                                         std::vector<ir::PerShard> inputs) const {
  std::vector<ir::PerShard> values(function.types().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[function.inputs()[i].id] = std::move(inputs[i]);
  const std::vector<std::vector<ir::Var>> dead = last_reads(function);
  for (std::size_t i = 0; i < function.equations().size(); ++i) {
    const ir::Equation& equation = function.equations()[i];
    std::vector<ir::PerShard> operands;
    for (const ir::Var v : equation.inputs) operands.push_back(values[v.id]);
    std::vector<ir::PerShard> results = run_equation(function, equation, shards, operands);
    if (observer_ != nullptr) report(function, equation, shards, operands, results);
    for (std::size_t k = 0; k < results.size(); ++k) values[equation.outputs[k].id] = std::move(results[k]);
    for (const ir::Var v : dead[i]) values[v.id].clear();
  }
  std::vector<ir::PerShard> outputs;
  for (const ir::Var v : function.outputs()) outputs.push_back(values[v.id]);
  return outputs;
}

Evaluator Evaluator::with_active(std::vector<bool> active) const {
  Evaluator inner = *this;
  inner.active_ = std::move(active);
  return inner;
}

Evaluator Evaluator::in_iteration(std::int64_t i) const {
  Evaluator inner = *this;
  inner.iterations_.push_back(i);
  return inner;
}

void Evaluator::report(const ir::Function& function, const ir::Equation& equation, const Shards& shards,
                       const std::vector<ir::PerShard>& operands, const std::vector<ir::PerShard>& results) const {
  const ir::Traits& traits = equation.primitive->traits;
  if (traits.call || equation.primitive->sub_functions.evaluate != nullptr) return;
  const auto on_shard = [&](std::span<const ir::Var> vars, const std::vector<ir::PerShard>& values, std::size_t s) {
    std::vector<HostArray> arrays;
    for (std::size_t k = 0; k < vars.size(); ++k) arrays.push_back({function.type(vars[k]), values[k][s]});
    return arrays;
  };
  for (std::int64_t shard = 0; shard < shards.count(); ++shard) {
    const auto s = static_cast<std::size_t>(shard);
    if (!is_active(s)) continue;
    const std::vector<HostArray> inputs = on_shard(equation.inputs, operands, s);
    const std::vector<HostArray> outputs = on_shard(equation.outputs, results, s);
    (*observer_)({equation, inputs, outputs, shard, shards.count(), iterations_});
  }
}

std::vector<ir::PerShard> Evaluator::run_equation(const ir::Function& function, const ir::Equation& equation,
                                                  const Shards& shards,
                                                  const std::vector<ir::PerShard>& operands) const {
  const ir::Primitive& primitive = *equation.primitive;
  if (const ir::EvaluateRule evaluate = primitive.sub_functions.evaluate) {
    return evaluate({*this, function, equation, shards, operands});
  }
  if (primitive.traits.call) return run(*ir::sub_function(equation.attrs, "body"), shards, operands);
  if (ir::exchanged_by(primitive, equation.attrs).collective.exchange != ir::Exchange::none) {
    const ArrayType input = equation.inputs.empty() ? ArrayType{} : function.type(equation.inputs[0]);
    const CollectiveCall call{primitive, equation.attrs, input, function.type(equation.outputs.at(0))};
    return {run_collective(call, shards, operands.empty() ? ir::PerShard() : operands[0], backend_)};
  }
  if (primitive.traits.moves == ir::Moves::in_place) return {operands.at(0)};
  return run_kernel(function, equation, shards, operands);
}

std::vector<ir::PerShard> Evaluator::run_kernel(const ir::Function& function, const ir::Equation& equation,
                                                const Shards& shards, const std::vector<ir::PerShard>& operands) const {
  const std::vector<ArrayType> output_types = types_of(function, equation.outputs);
  const BoundKernel kernel(backend_, equation.primitive->name, equation.attrs, types_of(function, equation.inputs),
                           output_types);
  AxisSet varying;
  for (const ArrayType& type : output_types) varying = varying.joined(type.varying);
  const auto rows = shards.share<std::vector<BufferPtr>>(varying, [&](std::int64_t shard) {
    std::vector<BufferPtr> arguments;
    for (const ir::PerShard& operand : operands) arguments.push_back(nth(operand, shard));
    return kernel.run(arguments);
  });
  return by_output(rows, output_types.size());
}

namespace {

void check_inputs(const ir::Function& function, std::span<const HostArray> inputs) {
  if (!function.axes().empty()) {
    throw IrError("eval: the function is the body of a map over " + std::to_string(function.axes().total()) +
                  " shards; evaluate the function that contains the pmap");
  }
  if (inputs.size() != function.inputs().size()) {
    throw IrError("eval: got " + std::to_string(inputs.size()) + " inputs, expected " +
                  std::to_string(function.inputs().size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ArrayType& expected = function.type(function.inputs()[i]);
    if (inputs[i].type == expected) continue;
    throw IrError("eval: input " + ir::print_var(function, function.inputs()[i]) + " is " + to_string(inputs[i].type) +
                  ", expected " + to_string(expected));
  }
}

}  // namespace

std::vector<HostArray> eval(const ir::Function& function, std::span<const HostArray> inputs, const Backend& backend,
                            const EvalObserver& observer) {
  check_inputs(function, inputs);
  const std::shared_ptr<void> thread_settings = backend.enter_thread();
  std::vector<ir::PerShard> values;
  for (const HostArray& input : inputs) values.push_back({input.buffer});
  values = Evaluator(backend, observer ? &observer : nullptr).run(function, Shards(ir::AxisSizes()), std::move(values));
  std::vector<HostArray> outputs;
  for (std::size_t k = 0; k < values.size(); ++k) {
    outputs.push_back({function.type(function.outputs()[k]), values[k].front()});
  }
  return outputs;
}

HostArray host_array(const ArrayType& type, std::span<const std::byte> bytes, const Backend& backend) {
  const auto expected = static_cast<std::size_t>(type.nbytes());
  if (bytes.size() != expected) {
    throw ValueError("host_array: got " + std::to_string(bytes.size()) + " bytes for " + to_string(type) +
                     ", expected " + std::to_string(expected));
  }
  HostArray array{type, allocate(backend, type)};
  if (!bytes.empty()) std::memcpy(array.buffer->data(), bytes.data(), bytes.size());
  return array;
}

std::vector<std::byte> host_bytes(const HostArray& array) {
  const auto* first = static_cast<const std::byte*>(array.buffer->data());
  return {first, first + array.type.nbytes()};
}

}  // namespace lockstep::eval
