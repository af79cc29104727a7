#include "engine/ops/collective/map_rules.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"

namespace lockstep::ops::collective {

namespace {

using Layout = std::vector<std::string>;
using Layouts = std::vector<Layout>;

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
    std::vector<ir::Var> vars;
    for (const Value& operand : operands) vars.push_back(operand.var());
    const Attrs attrs = like.with("body", std::shared_ptr<const AttrObject>(body)).with("in", in).with("out", out);
    std::vector<Value> results;
    for (const ir::Var v : builder.apply(primitives::pmap(), vars, attrs)) results.emplace_back(builder, v);
    return results;
  }
};

template <class T>
std::vector<T> marked(const std::vector<T>& all, const std::vector<bool>& marks, bool mark) {
  std::vector<T> result;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] == mark) result.push_back(all[i]);
  }
  return result;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

ir::FunctionPtr with_signature(const ir::Function& f, std::vector<ir::Var> inputs, std::vector<ir::Var> outputs) {
  return std::make_shared<const ir::Function>(f.axes(), f.types(), std::move(inputs), f.equations(),
                                              std::move(outputs));
}

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

/// Results of the two maps in the order of the whole one's.
ir::SplitResult interleaved(const std::vector<bool>& unknown, std::span<const Value> known_results,
                            std::span<const Value> unknown_results) {
  ir::SplitResult result{{}, unknown};
  std::size_t next_known = 0, next_unknown = 0;
  for (const bool late : unknown) {
    result.outputs.push_back(late ? unknown_results[next_unknown++] : known_results[next_known++]);
  }
  return result;
}

}  // namespace

ir::JointTangents differentiate_map(const ir::JvpContext& context) {
  Map map = Map::of(context.attrs);
  std::vector<Value> operands(context.inputs.begin(), context.inputs.end());
  std::vector<bool> active;
  for (const ir::Tangent& tangent : context.tangents) {
    active.push_back(tangent.has_value());
    if (tangent) operands.push_back(*tangent);
  }
  const std::size_t outputs = map.body->outputs().size();
  const ir::Differentiated both = context.transforms->jvp(map.body, active, std::vector<bool>(outputs, false));
  map.body = both.function;
  append(map.in, marked(map.in, active, true));
  append(map.out, marked(map.out, both.active, true));
  const std::vector<Value> results = map.apply(context.builder, context.attrs, operands);
  ir::JointTangents joint{{results.begin(), results.begin() + static_cast<std::ptrdiff_t>(outputs)}, {}};
  std::size_t next = outputs;
  for (const bool has_tangent : both.active) {
    joint.tangents.push_back(has_tangent ? ir::Tangent(results[next++]) : ir::Tangent());
  }
  return joint;
}

ir::SplitResult split_map(const ir::SplitContext& context) {
  const Map map = Map::of(context.attrs);
  const std::vector<bool> forced(map.body->outputs().size(), false);
  const ir::Partitioned parts = context.transforms->partition(map.body, context.unknown, forced);
  const std::vector<Residual> residuals = residuals_of(parts);
  const std::vector<Value> inputs(context.inputs.begin(), context.inputs.end());

  const std::vector<Value> known_operands = marked(inputs, context.unknown, false);
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
  append(operands, marked(inputs, context.unknown, true));
  return interleaved(parts.unknown_outputs, known_results, unknown.apply(context.builder, context.attrs, operands));
}

std::vector<ir::Tangent> transpose_map(const ir::TransposeContext& context) {
  const Map map = Map::of(context.attrs);
  std::vector<bool> linear, wanted;
  std::vector<Value> operands;
  for (const ir::Tangent& input : context.inputs) {
    linear.push_back(!input.has_value());
    if (input) operands.push_back(*input);
  }
  const int residuals = static_cast<int>(operands.size());
  for (const ir::Tangent& cotangent : context.cotangents) {
    wanted.push_back(cotangent.has_value());
    if (cotangent) operands.push_back(*cotangent);
  }
  std::vector<ir::Var> inputs = marked(map.body->inputs(), linear, false);
  append(inputs, marked(map.body->inputs(), linear, true));
  const ir::FunctionPtr body = with_signature(*map.body, std::move(inputs), marked(map.body->outputs(), wanted, true));
  Map back{context.transforms->transpose(body, residuals), marked(map.in, linear, false), marked(map.in, linear, true)};
  append(back.in, marked(map.out, wanted, true));
  const std::vector<Value> results = back.apply(context.builder, context.attrs, operands);
  std::vector<ir::Tangent> cotangents;
  std::size_t next = 0;
  for (const bool is_linear : linear) {
    cotangents.push_back(is_linear ? ir::Tangent(results[next++]) : ir::Tangent());
  }
  return cotangents;
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
