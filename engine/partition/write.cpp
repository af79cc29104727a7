#include "engine/partition/write.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "engine/core/current_layer.h"
#include "engine/core/fold_tree.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::partition {

namespace {

/// A message's words for the op of an equation.
std::string name_of(const ir::Equation& equation) { return equation.primitive->name; }

std::string layer_of(const ir::Equation& equation) {
  return equation.provenance.scope ? *equation.provenance.scope : std::string();
}

/// Effects name the replica they come from; here nothing but the whole has them.
std::pair<std::vector<Value>, Attrs> without_axes(const ir::Equation& equation, std::vector<Value> operands) {
  const std::size_t indices = equation.attrs.get<std::vector<std::string>>("axes").size();
  operands.erase(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(indices));
  return {std::move(operands), equation.attrs.with("axes", std::vector<std::string>{})};
}

/// Part i of an operand's dimension that is the factor.
Value part_of(const Value& x, const ir::FactorDims& dims, int factor, std::int64_t i, std::int64_t count) {
  const auto found = std::ranges::find(dims, std::vector<int>{factor});
  if (found == dims.end() || count == 1) return x;
  const auto d = static_cast<std::size_t>(found - dims.begin());
  ops::Dims start(dims.size());
  ops::Dims limit = x.shape().to_vector();
  const std::int64_t length = limit[d] / count;
  start[d] = i * length;
  limit[d] = start[d] + length;
  return ops::slice(x, start, limit, ops::Dims(dims.size(), 1));
}

/// Whose kernels add up in an order that depends on all extents, which layouts decide, unless they are told one.
bool takes_an_order(const ir::Equation& equation, const ArrayType& result) {
  if (equation.primitive == &ops::primitives::reduce_sum()) {
    return (result.dtype == float32 || result.dtype == float64) && equation.attrs.get<ops::Dims>("axes").size() == 1;
  }
  const ir::Primitive* const products[] = {&ops::primitives::dot_general(), &ops::primitives::conv(),
                                           &ops::primitives::conv_input_grad(), &ops::primitives::conv_kernel_grad()};
  return is_float(result.dtype) && std::ranges::find(products, equation.primitive) != std::end(products);
}

/// Whether the op adds up blocks of that factor itself: a sum does, and a product of matrices where they are blocks of all
/// that it contracts, as one dimension.
bool takes_blocks(const ir::Equation& equation, const ir::Factors& factors, int factor) {
  if (equation.primitive == &ops::primitives::reduce_sum()) return true;
  if (equation.primitive != &ops::primitives::dot_general()) return false;
  const auto& contract = equation.attrs.get<std::vector<ops::Dims>>("contract");
  return !contract[0].empty() && nth(factors.operands[0], contract[0][0]) == std::vector<int>{factor};
}

}  // namespace

BlockWriter::BlockWriter(ir::Builder& builder, const Analysis& analysis, const Setting& setting, Moves& moves,
                         std::int64_t times)
    : builder_(builder),
      analysis_(analysis),
      setting_(setting),
      moves_(moves),
      times_(times),
      read_by_ops_(analysis.function->types().size()),
      read_by_reshards_(read_by_ops_.size()),
      read_by_totals_(read_by_ops_.size()) {
  for (std::size_t i = 0; i < function().equations().size(); ++i) {
    const ir::Equation& equation = function().equations()[i];
    for (const ir::Var v : equation.outputs) definitions_[v.id] = i;
    if (!analysis.live[i]) continue;
    const bool is_reshard = equation.primitive == &ops::primitives::with_layout();
    for (const ir::Var v : equation.inputs) (is_reshard ? read_by_reshards_ : read_by_ops_)[v.id] = true;
    if (is_total(equation)) read_by_totals_[equation.inputs[0].id] = true;
  }
  for (std::size_t i = 0; i < function().inputs().size(); ++i) inputs_[function().inputs()[i].id] = i;
}

std::vector<Value> BlockWriter::write(std::span<const Value> inputs, std::span<const ValueLayout> wanted,
                                      std::span<const std::string> output_names, const ir::Equation* reader) {
  if (reader != nullptr) {
    for (const ir::Var v : function().outputs()) read_by_ops_[v.id] = true;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::Var v = function().inputs()[i];
    placed_.insert_or_assign({v.id, to_string(analysis_.layout(v))}, inputs[i]);
  }
  for (std::size_t i = 0; i < function().equations().size(); ++i) {
    if (analysis_.live[i]) write_equation(i);
  }
  builder_.set_provenance({});
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ir::Var v = function().outputs()[i];
    Asker asker;
    if (reader != nullptr) {
      asker = asker_of_body(*reader, v);
    } else {
      asker.read_by = i < output_names.size() ? output_names[i] : fmt::format("output {}", i);
      asker.is_asked = true;
      asker.reason = "the result is given that layout";
    }
    asker.made_by = maker_of(v);
    asker.place = place_of(nullptr, v);
    asker.times = times_;
    outputs.push_back(get(v, wanted[i], asker));
  }
  return outputs;
}

const ir::Equation* BlockWriter::definition(ir::Var v) const {
  const auto found = definitions_.find(v.id);
  return found == definitions_.end() ? nullptr : &function().equations()[found->second];
}

std::string BlockWriter::maker_of(ir::Var v) const {
  const ir::Equation* equation = definition(v);
  return equation != nullptr ? name_of(*equation) : fmt::format("input {}", inputs_.at(v.id));
}

/// Where the program calls the reader of a value, or else what makes it.
std::string BlockWriter::place_of(const ir::Equation* reader, ir::Var v) const {
  std::string place = reader == nullptr ? std::string() : place::text_of(reader->provenance.at);
  const ir::Equation* maker = definition(v);
  return place.empty() && maker != nullptr ? place::text_of(maker->provenance.at) : place;
}

/// A sum to a scalar, which is asked for. In one order it is a sum of blocks of all elements, for which they are reshaped.
bool BlockWriter::is_total(const ir::Equation& equation) const {
  if (equation.primitive == &ops::primitives::reshape()) return read_by_totals_[equation.outputs[0].id];
  return equation.primitive == &ops::primitives::reduce_sum() && function().type(equation.outputs[0]).shape.rank() == 0;
}

/// Of what a sub-function gives to the equation it belongs to.
Asker BlockWriter::asker_of_body(const ir::Equation& reader, ir::Var v) const {
  const ir::Equation* maker = definition(v);
  Asker asker;
  asker.read_by = name_of(reader);
  asker.layer = layer_of(maker != nullptr ? *maker : reader);
  asker.backward = reader.provenance.backward || (maker != nullptr && maker->provenance.backward);
  asker.reason = fmt::format("what is computed inside of {} leaves it in one layout", asker.read_by);
  return asker;
}

Asker BlockWriter::asker_of(const ir::Equation& equation, std::size_t operand) const {
  Asker asker;
  asker.made_by = maker_of(equation.inputs[operand]);
  asker.read_by = name_of(equation);
  asker.layer = layer_of(equation);
  asker.place = place_of(&equation, equation.inputs[operand]);
  asker.backward = equation.provenance.backward;
  asker.times = times_;
  const bool is_reshard = equation.primitive == &ops::primitives::with_layout();
  const bool is_sum = is_total(equation);
  asker.is_asked = is_reshard || is_sum || (!has_bodies(equation) && is_of_one_replica(equation));
  asker.reason = is_reshard       ? "reshard asks for it"
                 : is_sum         ? "all of it is added up"
                 : asker.is_asked ? "the program reduces it"
                 : has_bodies(equation)
                     ? fmt::format("operand {} of {} keeps one layout inside of it", operand, asker.read_by)
                     : fmt::format("operand {} of {} must lie so beside the others", operand, asker.read_by);
  return asker;
}

Value BlockWriter::get(ir::Var v, const ValueLayout& target, const Asker& asker) {
  const Place place{v.id, to_string(target)};
  if (const auto found = placed_.find(place); found != placed_.end()) return found->second;
  if (std::optional<Value> again = made_again(v, target)) {
    placed_.emplace(place, *again);
    return *again;
  }
  const ValueLayout& own = analysis_.layout(v);
  const Value base = placed_.at({v.id, to_string(own)});
  const Value moved = moves_.move(base, function().type(v), own, target, asker);
  placed_.emplace(place, moved);
  return moved;
}

/// Zeros are a sum along any axes; constants and broadcasts cost nothing, and draws are made where they are read.
std::optional<Value> BlockWriter::made_again(ir::Var v, const ValueLayout& target) {
  const ArrayType& type = function().type(v);
  if (analysis_.zeros[v.id] && !analysis_.layout(v).sums.contains(target.sums)) {
    const ArrayType block = block_type(type, target, mesh());
    return as_input(ops::full(builder_, type.dtype, block.shape, 0), block);
  }
  const ir::Equation* equation = definition(v);
  if (equation == nullptr || !rule_of(*equation->primitive).repeated) return std::nullopt;
  const std::vector<Wish> wishes = {wish_for(target)};
  const Resolution resolution = resolve_equation(analysis_, definitions_.at(v.id), wishes, setting_);
  if (resolution.results[0] != target) return std::nullopt;
  return on_blocks(*equation, resolution).front();
}

std::vector<Value> BlockWriter::operands_of(const ir::Equation& equation, const Resolution& resolution) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    operands.push_back(get(equation.inputs[i], resolution.operands[i], asker_of(equation, i)));
  }
  return operands;
}

std::vector<Value> BlockWriter::on_blocks(const ir::Equation& equation, const Resolution& resolution) {
  std::vector<Value> operands = operands_of(equation, resolution);
  if (equation.primitive == &ops::primitives::with_layout()) return operands;
  if (is_of_one_replica(equation)) {
    if (operands.empty()) return {ops::full(builder_, int32, Shape{}, 0)};
    const bool sends_nothing =
        equation.attrs.has("pairs") && equation.attrs.get<std::vector<ops::Dims>>("pairs").empty();
    return {sends_nothing ? ops::full_like(operands[0], 0) : operands[0]};
  }
  if (equation.primitive->traits.effect && equation.attrs.has("axes")) {
    auto [values, attrs] = without_axes(equation, std::move(operands));
    return ops::sub_function::apply_to(builder_, *equation.primitive, values, std::move(attrs));
  }
  return in_blocks(equation, resolution, operands);
}

/// The op on this shard's blocks; where its sum is taken by blocks, on each of these, joined as sums over replicas are.
std::vector<Value> BlockWriter::in_blocks(const ir::Equation& equation, const Resolution& resolution,
                                          const std::vector<Value>& operands) {
  std::vector<ArrayType> blocks;
  std::vector<ArrayType> whole_inputs;
  std::vector<ArrayType> whole_outputs;
  std::vector<OperandState> states;
  for (const ir::Var v : equation.inputs) {
    whole_inputs.push_back(function().type(v));
    states.push_back({&function().type(v), {}, false});
  }
  for (std::size_t k = 0; k < equation.outputs.size(); ++k) {
    whole_outputs.push_back(function().type(equation.outputs[k]));
    blocks.push_back(block_type(whole_outputs[k], resolution.results[k], mesh()));
  }
  const ir::LayoutRule& rule = rule_of(*equation.primitive);
  const bool is_ordered = setting_.contraction_blocks > 0 && takes_an_order(equation, whole_outputs[0]);
  const auto apply = [&](const std::vector<Value>& some, std::int64_t blocks_at_once = 1) {
    const ir::BlockContext context{builder_,     equation.attrs, some,           blocks,
                                   whole_inputs, whole_outputs,  resolution.axes};
    if (rule.write) return rule.write(context);
    Attrs attrs = rule.attrs ? rule.attrs(context) : equation.attrs;
    if (is_ordered) attrs = attrs.with("sum_blocks", blocks_at_once);
    return ops::sub_function::apply_to(builder_, *equation.primitive, some, std::move(attrs));
  };
  if (setting_.contraction_blocks == 0) return apply(operands);
  const ir::Factors factors = factors_of({*equation.primitive, equation.attrs, states, whole_outputs, {}, setting_});
  const std::optional<int> summed = summed_factor(factors, setting_);
  if (!summed || !is_inexact(whole_outputs[0].dtype)) return apply(operands);
  const auto f = static_cast<std::size_t>(*summed);
  const std::int64_t count =
      blocks_of_sum(factors.list[f].extent, setting_) / partition::blocks(resolution.axes[f], mesh());
  if (is_ordered && takes_blocks(equation, factors, *summed) && !is_narrow_float(whole_outputs[0].dtype)) {
    return apply(operands, count);
  }
  const auto part = [&](std::int64_t i) {
    std::vector<Value> some = operands;
    for (std::size_t o = 0; o < some.size(); ++o) some[o] = part_of(some[o], factors.operands[o], *summed, i, count);
    return apply(some).front();
  };
  return {fold_tree<Value>(
      0, count, [&](std::int64_t i, TreeNode) { return part(i); },
      [](const Value& a, const Value& b, TreeNode) { return ops::add(a, b); })};
}

void BlockWriter::write_equation(std::size_t index) {
  const ir::Equation& equation = function().equations()[index];
  const EquationPlan& plan = analysis_.equations[index];
  builder_.set_provenance(equation.provenance);
  if (has_bodies(equation)) {
    put(equation, plan.resolution, with_bodies(equation, plan));
    return;
  }
  put(equation, plan.resolution, on_blocks(equation, plan.resolution));
}

void BlockWriter::put(const ir::Equation& equation, const Resolution& resolution, const std::vector<Value>& results) {
  for (std::size_t k = 0; k < results.size(); ++k) {
    const ir::Var v = equation.outputs[k];
    const ArrayType& type = function().type(v);
    Asker asker;
    asker.made_by = name_of(equation);
    asker.read_by = "what reads it";
    asker.layer = layer_of(equation);
    asker.place = place::text_of(equation.provenance.at);
    asker.backward = equation.provenance.backward;
    asker.times = times_;
    asker.is_asked = is_asked_for(v);
    Value x = results[k];
    if (k < resolution.maxima.size() && !(resolution.maxima[k].empty() && resolution.minima[k].empty())) {
      asker.reason = "the dimension it is taken over is cut";
      x = moves_.extremum(x, resolution.maxima[k], resolution.minima[k], resolution.results[k], asker);
    }
    const ValueLayout& own = analysis_.layout(v);
    asker.reason = "several read the sum: it is reduced once";
    x = moves_.move(x, type, resolution.results[k], own, asker);
    placed_.insert_or_assign({v.id, to_string(own)}, x);
  }
}

Value BlockWriter::as_input(const Value& x, const ArrayType& type) {
  return {builder_, builder_.pvary(x.var(), type.varying)};
}

}  // namespace lockstep::partition
