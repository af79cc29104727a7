#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/sequential_map.h>
#include <lockstep/transforms.h>

#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/trace/trace.h"
#include "engine/transform/in_turn.h"

namespace lockstep::detail {

namespace {

void check_rows(const api::FlatArguments& rows, const SequentialMapOptions& options) {
  if (options.parts < 1) {
    throw ValueError(fmt::format("sequential_map: parts is {}; it must be at least 1", options.parts));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Array& leaf = rows.leaves()[i];
    if (leaf.ndim() > 0 && leaf.dim(0) == rows.leaves()[0].dim(0) && leaf.dim(0) % options.parts == 0) continue;
    throw ShapeError(fmt::format(
        "sequential_map: {} is {}; expected leaves of one number of rows (dimension 0) that {} parts share equally",
        rows.path(i), to_string(leaf.type()), options.parts));
  }
}

/// [parts * n, ...] as [parts, n, ...].
Array stacked(const Array& x, std::int64_t parts) {
  const Shape shape = x.shape().with(0, x.dim(0) / parts).insert(0, parts);
  return reshape(x, shape.to_vector());
}

/// The part's number and its rows.
std::vector<ArrayType> types_of_part(const api::FlatArguments& flat, const SequentialMapOptions& options) {
  std::vector<ArrayType> types = {{DType::int32, {}, {options.axis}}};
  for (ArrayType type : flat.types()) {
    type.shape = type.shape.with(0, type.shape[0] / options.parts);
    type.varying = type.varying.joined({options.axis});
    types.push_back(std::move(type));
  }
  return types;
}

}  // namespace

Tree sequential_map(const std::function<Tree(const Tree&)>& function, const Tree& rows,
                    const SequentialMapOptions& options) {
  const api::FlatArguments flat({rows});
  check_rows(flat, options);
  const std::vector<ArrayType> types = types_of_part(flat, options);
  Tree result;
  const auto body = [&](std::span<const Array> inputs) {
    trace::set_axis_index(options.axis, inputs[0]);
    result = function(flat.rebuild(inputs.subspan(1))[0]);
    return result.leaves();
  };
  const trace::Traced traced = trace::trace(body, types, ir::AxisSizes({{options.axis, options.parts}}));
  using namespace ops::control_flow;
  const ir::Function& all = *traced.function;
  const ir::FunctionPtr needed = pick(all, places(0, all.inputs().size()), places(0, all.outputs().size()),
                                      options.effects ? Effects::kept : Effects::left_out);
  std::vector<Array> operands;
  for (const Array& leaf : flat.leaves()) operands.push_back(stacked(leaf, options.parts));
  const ir::FunctionPtr in_turn = transform::in_turn(needed, flat.size(), options.axis);
  return api::skeleton(result).unflatten(api::call(in_turn, api::joined(std::move(operands), traced.captured)));
}

}  // namespace lockstep::detail
