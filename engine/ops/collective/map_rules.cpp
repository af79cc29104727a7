#include "engine/ops/collective/map_rules.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/ops/collective/map_types.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/sub_function.h"
#include "engine/ops/values.h"

namespace lockstep::ops::collective {

namespace {

using sub_function::append;
using sub_function::marked;

/// A map's body and layouts; mesh and devices stay in the attributes it came from.
struct Map {
  ir::FunctionPtr body;
  Layouts in;
  Layouts out;

  static Map of(const Attrs& attrs) {
    return {ir::sub_function(attrs, "body"), attrs.get<Layouts>("in"), attrs.get<Layouts>("out")};
  }

  /// Its results on whole arrays; nothing where it has none.
  std::vector<Value> apply(ir::Builder& builder, const Attrs& like, std::span<const Value> operands) const {
    if (body->outputs().empty()) return {};
    return sub_function::apply_to(builder, primitives::pmap(), operands,
                                  like.with("body", sub_function::attribute(body)).with("in", in).with("out", out));
  }
};

// ---- residuals

/// A residual outside of the maps: either an operand of the first one, or a result of it with a leading dimension for
/// each axis that it varies along.
struct Residual {
  ArrayType local;
  std::optional<std::size_t> operand;  ///< Among the known operands.

  /// Its shape as a result of one shard; one dimension of its own where there is no room for more.
  Shape cut_shape() const {
    const std::size_t rank = static_cast<std::size_t>(local.shape.rank()) + local.varying.size();
    Shape shape = rank <= Shape::max_rank ? local.shape : Shape{local.shape.size()};
    for (std::size_t i = 0; i < local.varying.size(); ++i) shape = shape.insert(0, 1);
    return shape;
  }
  Layout layout(const ir::AxisSizes& mesh) const {
    Layout result;
    for (const auto& axis : mesh.axes()) {
      if (local.varying.contains(axis.name)) result.push_back(axis.name);
    }
    result.resize(static_cast<std::size_t>(cut_shape().rank()));
    return result;
  }
};

/// The residuals of a body cut in two; they are the last results of the known part.
std::vector<Residual> residuals_of(const ir::Partitioned& parts) {
  const ir::Function& known = *parts.known;
  std::vector<Residual> residuals;
  for (std::size_t i = known.outputs().size() - static_cast<std::size_t>(parts.residuals); i < known.outputs().size();
       ++i) {
    const ir::Var v = known.outputs()[i];
    const auto place = std::ranges::find(known.inputs(), v);
    Residual residual{known.type(v), std::nullopt};
    if (place != known.inputs().end()) residual.operand = static_cast<std::size_t>(place - known.inputs().begin());
    residuals.push_back(std::move(residual));
  }
  return residuals;
}

/// The known part, its residuals given their leading dimensions, without those that are operands.
ir::FunctionPtr widen_results(const ir::Function& known, const std::vector<Residual>& residuals) {
  ir::Builder builder(known.axes());
  std::vector<ir::Var> inputs;
  for (const ir::Var v : known.inputs()) inputs.push_back(builder.input(known.type(v)));
  std::vector<ir::Var> results = builder.inline_function(known, inputs);
  const std::size_t first = results.size() - residuals.size();
  std::vector<ir::Var> outputs(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(first));
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    if (residuals[i].operand) continue;
    outputs.push_back(reshape({builder, results[first + i]}, residuals[i].cut_shape()).var());
  }
  return builder.finish(std::move(outputs));
}

/// The unknown part on residuals as `widen_results` gives them.
ir::FunctionPtr widen_operands(const ir::Function& unknown, const std::vector<Residual>& residuals) {
  ir::Builder builder(unknown.axes());
  std::vector<ir::Var> arguments;
  for (std::size_t i = 0; i < unknown.inputs().size(); ++i) {
    ArrayType type = unknown.type(unknown.inputs()[i]);
    const Shape shape = type.shape;
    if (i < residuals.size() && !residuals[i].operand) type.shape = residuals[i].cut_shape();
    arguments.push_back(reshape({builder, builder.input(type)}, shape).var());
  }
  return builder.finish(builder.inline_function(unknown, arguments));
}

}  // namespace

ir::JointTangents differentiate_map(const ir::JvpContext& context) {
  Map map = Map::of(context.attrs);
  const sub_function::JvpBody jvp = sub_function::jvp_body(context, map.body);
  map.body = jvp.both.function;
  append(map.in, marked(map.in, jvp.active, true));
  append(map.out, marked(map.out, jvp.both.active, true));
  return sub_function::joint_tangents(map.apply(context.builder, context.attrs, jvp.operands), jvp.both.active);
}

ir::SplitResult split_map(const ir::SplitContext& context) {
  const Map map = Map::of(context.attrs);
  const std::vector<bool> forced(map.body->outputs().size(), false);
  const ir::Partitioned parts = context.transforms->partition(map.body, context.unknown, forced);
  const std::vector<Residual> residuals = residuals_of(parts);

  const std::vector<Value> known_operands = marked(context.inputs, context.unknown, false);
  Map known{widen_results(*parts.known, residuals), marked(map.in, context.unknown, false),
            marked(map.out, parts.unknown_outputs, false)};
  const std::size_t known_outputs = known.out.size();
  for (const Residual& residual : residuals) {
    if (!residual.operand) known.out.push_back(residual.layout(map.body->axes()));
  }
  const std::vector<Value> known_results = known.apply(context.builder, context.attrs, known_operands);

  Map unknown{widen_operands(*parts.unknown, residuals), {}, marked(map.out, parts.unknown_outputs, true)};
  std::vector<Value> operands;
  std::size_t next = known_outputs;
  for (const Residual& residual : residuals) {
    operands.push_back(residual.operand ? known_operands[*residual.operand] : known_results[next++]);
    unknown.in.push_back(residual.operand ? known.in[*residual.operand] : residual.layout(map.body->axes()));
  }
  append(unknown.in, marked(map.in, context.unknown, true));
  append(operands, marked(context.inputs, context.unknown, true));
  return sub_function::joined_results(parts.unknown_outputs, known_results,
                                      unknown.apply(context.builder, context.attrs, operands));
}

std::vector<ir::Tangent> transpose_map(const ir::TransposeContext& context) {
  const Map map = Map::of(context.attrs);
  const sub_function::TransposedBody transposed = sub_function::transposed_body(context, map.body);
  Map back{transposed.function, marked(map.in, transposed.linear, false), marked(map.in, transposed.linear, true)};
  append(back.in, marked(map.out, transposed.given, true));
  return sub_function::operand_cotangents(back.apply(context.builder, context.attrs, transposed.operands),
                                          transposed.linear);
}

std::vector<Value> batch_map(const ir::BatchContext& context) {
  Map map = Map::of(context.attrs);
  const ir::Batched batched = context.transforms->vmap(
      map.body, context.batched, std::vector<bool>(map.body->outputs().size(), true), context.size, context.axis);
  map.body = batched.function;
  for (std::size_t i = 0; i < map.in.size(); ++i) {
    if (context.batched[i]) map.in[i].insert(map.in[i].begin(), "");
  }
  for (Layout& layout : map.out) layout.insert(layout.begin(), "");
  return map.apply(context.builder, context.attrs, context.inputs);
}

}  // namespace lockstep::ops::collective
