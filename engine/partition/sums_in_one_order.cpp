#include "engine/partition/sums_in_one_order.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "engine/ir/rewrite.h"
#include "engine/ir/sub_functions.h"
#include "engine/ops/attention/sums_apart.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/partition/analysis.h"
#include "engine/partition/resolve.h"

namespace lockstep::partition {

namespace {

using ir::Value;

/// Dimension `first` and the `count` - 1 behind it as one.
Value merged_dims(const Value& x, std::int64_t first, std::int64_t count) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    const bool is_merged = d > first && d < first + count;
    shape = is_merged ? shape.with(static_cast<int>(first), shape[static_cast<int>(first)] * x.shape()[d])
                      : shape.insert(shape.rank(), x.shape()[d]);
  }
  return ops::reshape(x, shape);
}

Value one_sum_after_the_other(Value x, ops::Dims axes) {
  std::ranges::sort(axes);
  while (!axes.empty()) {
    const std::int64_t last = axes.back();
    std::int64_t first = last;
    for (axes.pop_back(); !axes.empty() && axes.back() == first - 1; axes.pop_back()) --first;
    x = ops::reduce_sum(merged_dims(x, first, last - first + 1), {first});
  }
  return x;
}

bool adds_narrow_floats(const ir::Equation& equation, const std::vector<ArrayType>& operands,
                        const std::vector<ArrayType>& results, const Setting& setting) {
  if (std::ranges::none_of(results, [](const ArrayType& type) { return is_narrow_float(type.dtype); })) return false;
  std::vector<OperandState> states;
  for (const ArrayType& type : operands) states.push_back({&type, {}, false});
  return summed_factor(factors_of({*equation.primitive, equation.attrs, states, results, {}, setting}), setting)
      .has_value();
}

std::vector<ir::Var> in_float32(ir::Builder& builder, const ir::Equation& equation, std::span<const ir::Var> inputs,
                                const std::vector<ArrayType>& results) {
  std::vector<ir::Var> wide;
  for (const ir::Var v : inputs) {
    const Value x(builder, v);
    wide.push_back(is_narrow_float(x.dtype()) ? ops::convert(x, float32).var() : v);
  }
  std::vector<ir::Var> outputs = builder.apply(*equation.primitive, wide, equation.attrs.without("dtype"));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    outputs[k] = ops::convert(Value(builder, outputs[k]), results[k].dtype).var();
  }
  return outputs;
}

/// The gradient of attention, of which some results are sums over what others have, with these sums apart.
std::optional<std::vector<ir::Var>> sums_apart(ir::Builder& builder, const ir::Equation& equation,
                                               std::span<const ir::Var> inputs, const std::vector<int>& readers) {
  if (equation.primitive != &ops::primitives::attention_grad()) return std::nullopt;
  std::vector<Value> operands;
  for (const ir::Var v : inputs) operands.emplace_back(builder, v);
  const bool is_bias_read = readers[equation.outputs.back().id] > 0;
  const auto results = ops::attention_grad_with_sums_apart(operands, equation.attrs, is_bias_read);
  if (!results) return std::nullopt;
  std::vector<ir::Var> vars;
  for (const Value& x : *results) vars.push_back(x.var());
  return vars;
}

}  // namespace

ir::FunctionPtr sums_in_one_order(const ir::FunctionPtr& function, const Setting& setting) {
  const std::vector<int> readers = readers_of(*function, live_equations(*function));
  const auto rule = [&](ir::Builder& builder, const ir::Equation& equation,
                        std::span<const ir::Var> inputs) -> std::optional<std::vector<ir::Var>> {
    if (!ir::sub_functions(equation.attrs).empty()) {
      const ir::Equation inner = ir::map_sub_functions(
          equation, [&](const ir::FunctionPtr& body) { return sums_in_one_order(body, setting); });
      return builder.apply(*inner.primitive, inputs, inner.attrs);
    }
    std::vector<ArrayType> operands, results;
    for (const ir::Var v : equation.inputs) operands.push_back(function->type(v));
    for (const ir::Var v : equation.outputs) results.push_back(function->type(v));
    const bool is_sum = equation.primitive == &ops::primitives::reduce_sum();
    if (is_sum && equation.attrs.get<ops::Dims>("axes").size() > 1) {
      Value x(builder, inputs[0]);
      const bool is_narrow = is_narrow_float(x.dtype());
      if (is_narrow) x = ops::convert(x, float32);
      x = one_sum_after_the_other(x, equation.attrs.get<ops::Dims>("axes"));
      return std::vector{is_narrow ? ops::convert(x, results[0].dtype).var() : x.var()};
    }
    if (auto apart = sums_apart(builder, equation, inputs, readers)) return apart;
    if (!adds_narrow_floats(equation, operands, results, setting)) return std::nullopt;
    return in_float32(builder, equation, inputs, results);
  };
  return ir::rewrite(*function, rule);
}

}  // namespace lockstep::partition
