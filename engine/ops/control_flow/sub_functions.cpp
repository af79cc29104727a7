#include "engine/ops/control_flow/sub_functions.h"

#include <algorithm>
#include <map>
#include <utility>

#include <lockstep/error.h>

#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep::ops::control_flow {

using ir::Builder;
using ir::Equation;
using ir::Function;
using ir::Var;

Places places(std::size_t first, std::size_t count) {
  Places result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(first + i);
  return result;
}

Places places_of(const std::vector<bool>& flags, bool flag) {
  Places result;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == flag) result.push_back(i);
  }
  return result;
}

Places joined(Places a, const Places& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

FunctionPtr write(const ir::AxisSizes& axes, std::span<const ArrayType> types, const Body& body) {
  Builder builder(axes);
  std::vector<Value> inputs;
  for (const ArrayType& type : types) inputs.emplace_back(builder, builder.input(type));
  std::vector<Var> outputs;
  for (const Value& output : body(builder, inputs)) outputs.push_back(output.var());
  return builder.finish(std::move(outputs));
}

std::vector<Value> call(Builder& builder, const Function& function, std::span<const Value> arguments) {
  std::vector<Var> vars;
  for (const Value& argument : arguments) vars.push_back(argument.var());
  std::vector<Value> results;
  for (const Var v : builder.inline_function(function, vars)) results.emplace_back(builder, v);
  return results;
}

namespace {

/// Per equation, whether it has an effect and needs these inputs alone.
std::vector<bool> effects_of(const Function& function, const Places& inputs) {
  std::vector<bool> available(function.types().size());
  for (const std::size_t i : inputs) available[function.inputs()[i].id] = true;
  std::vector<bool> effects;
  for (const Equation& equation : function.equations()) {
    const bool possible = std::ranges::all_of(equation.inputs, [&](Var v) { return available[v.id]; });
    for (const Var v : equation.outputs) available[v.id] = possible;
    effects.push_back(possible && ir::has_effects(equation));
  }
  return effects;
}

}  // namespace

FunctionPtr pick(const Function& function, const Places& inputs, const Places& outputs, Effects effects) {
  const std::vector<bool> has_effect =
      effects == Effects::kept ? effects_of(function, inputs) : std::vector<bool>(function.equations().size());
  std::vector<bool> live(function.types().size());
  const std::vector<Var> kept_outputs = at(std::span(function.outputs()), outputs);
  for (const Var v : kept_outputs) live[v.id] = true;
  std::vector<Equation> kept;
  for (std::size_t i = function.equations().size(); i-- > 0;) {
    const Equation& equation = function.equations()[i];
    if (!has_effect[i] && std::ranges::none_of(equation.outputs, [&](Var v) { return live[v.id]; })) continue;
    for (const Var v : equation.inputs) live[v.id] = true;
    kept.push_back(equation);
  }
  std::reverse(kept.begin(), kept.end());
  return std::make_shared<const Function>(function.axes(), function.types(), at(std::span(function.inputs()), inputs),
                                          std::move(kept), kept_outputs);
}

std::vector<bool> used_inputs(const Function& function) {
  std::vector<bool> live(function.types().size());
  for (const Var v : function.outputs()) live[v.id] = true;
  for (auto equation = function.equations().rbegin(); equation != function.equations().rend(); ++equation) {
    const bool wanted = std::ranges::any_of(equation->outputs, [&](Var v) { return live[v.id]; });
    if (!wanted && !ir::has_effects(*equation)) continue;
    for (const Var v : equation->inputs) live[v.id] = true;
  }
  std::vector<bool> used;
  for (const Var v : function.inputs()) used.push_back(live[v.id]);
  return used;
}

std::vector<bool> dependent_vars(const Function& function, const std::vector<bool>& inputs) {
  std::vector<bool> marked(function.types().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) marked[function.inputs()[i].id] = inputs[i];
  for (const Equation& equation : function.equations()) {
    if (std::ranges::none_of(equation.inputs, [&](Var v) { return marked[v.id]; })) continue;
    for (const Var v : equation.outputs) marked[v.id] = true;
  }
  return marked;
}

std::vector<ArrayType> types_of(std::span<const Value> values) {
  std::vector<ArrayType> types;
  for (const Value& value : values) types.push_back(value.type());
  return types;
}

Value varying_along(const Value& x, const AxisSet& axes) { return {x.builder(), x.builder().pvary(x.var(), axes)}; }

std::vector<AxisSet> varying_of(const std::vector<ArrayType>& types) {
  std::vector<AxisSet> axes;
  for (const ArrayType& type : types) axes.push_back(type.varying);
  return axes;
}

std::vector<Var> pvaried(Builder& builder, std::span<const Var> operands, std::span<const AxisSet> axes) {
  std::vector<Var> result;
  for (std::size_t i = 0; i < operands.size(); ++i) result.push_back(builder.pvary(operands[i], axes[i]));
  return result;
}

Value zeros_of(Builder& builder, const ArrayType& type) { return varying_along(zeros(builder, type), type.varying); }

AxisSet collective_axes(const Function& function) {
  AxisSet axes;
  ir::for_each_equation(function, [&](const Equation& equation) {
    if (equation.primitive->traits.collective) axes = axes.joined(ir::named_axes(equation));
  });
  return axes;
}

FunctionPtr with_varying_inputs(const FunctionPtr& function, std::span<const AxisSet> more) {
  bool changed = false;
  std::vector<ArrayType> types = function->input_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    changed = changed || !types[i].varying.contains(more[i]);
    types[i].varying = types[i].varying.joined(more[i]);
  }
  if (!changed) return function;
  return write(function->axes(), types,
               [&](Builder& builder, std::span<const Value> inputs) { return call(builder, *function, inputs); });
}

FunctionPtr with_varying_outputs(const FunctionPtr& function, std::span<const AxisSet> more) {
  bool changed = false;
  const std::vector<ArrayType> types = function->output_types();
  for (std::size_t i = 0; i < types.size(); ++i) changed = changed || !types[i].varying.contains(more[i]);
  if (!changed) return function;
  return write(function->axes(), function->input_types(), [&](Builder& builder, std::span<const Value> inputs) {
    std::vector<Value> outputs = call(builder, *function, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = varying_along(outputs[i], more[i]);
    return outputs;
  });
}

// ---- pvary out of loops

namespace {

/// Writes a function anew with other inputs in place of the pvary of what is `outer`.
class PvaryHoist {
 public:
  PvaryHoist(const Function& f, const std::vector<bool>& outer)
      : f_(f),
        outer_(f.types().size()),
        reaches_(f.types().size()),
        definition_(f.types().size()),
        mapped_(f.types().size()),
        builder_(f.axes()) {
    for (std::size_t i = 0; i < outer.size(); ++i) {
      const Var v = f.inputs()[i];
      outer_[v.id] = reaches_[v.id] = outer[i];
      input_.emplace(v, i);
    }
    for (const Equation& equation : f.equations()) {
      mark(equation);
      open(equation);
    }
  }

  bool any() const {
    return !opened_.empty() ||
           std::ranges::any_of(f_.equations(), [&](const Equation& equation) { return is_hoisted(equation); });
  }

  Hoisted run() {
    for (const Var v : f_.inputs()) mapped_[v.id] = builder_.input(f_.type(v));
    for (const Equation& equation : f_.equations()) {
      builder_.set_provenance(equation.provenance);
      if (is_hoisted(equation)) {
        mapped_[equation.outputs[0].id] = varied(equation.outputs[0], {});
        continue;
      }
      std::vector<Var> operands;
      for (const Var v : equation.inputs) operands.push_back(mapped_[v.id]);
      Attrs attrs = equation.attrs;
      if (const auto opened = opened_.find(&equation); opened != opened_.end()) {
        for (const Supplied& s : opened->second.supplied) operands.push_back(supply_of(equation.inputs[s.input], s));
        attrs = attrs.with("body", std::shared_ptr<const AttrObject>(opened->second.function));
      }
      const std::vector<Var> results = builder_.apply(*equation.primitive, operands, attrs);
      for (std::size_t k = 0; k < results.size(); ++k) mapped_[equation.outputs[k].id] = results[k];
    }
    builder_.set_provenance({});
    std::vector<Var> outputs;
    for (const Var v : f_.outputs()) outputs.push_back(mapped_[v.id]);
    return {builder_.finish(std::move(outputs)), std::move(supplied_)};
  }

 private:
  static bool is_pvary(const Equation& equation) { return equation.primitive == &ir::pvary_primitive(); }
  bool is_hoisted(const Equation& equation) const {
    return is_pvary(equation) && outer_[equation.inputs[0].id] && reaches_[equation.inputs[0].id];
  }

  void mark(const Equation& equation) {
    const bool plain = is_pvary(equation) || !equation.primitive->traits.typed_axes;
    const bool outer = plain && std::ranges::all_of(equation.inputs, [&](Var v) { return outer_[v.id]; });
    const bool reaches = std::ranges::any_of(equation.inputs, [&](Var v) { return reaches_[v.id]; });
    for (const Var v : equation.outputs) {
      outer_[v.id] = outer;
      reaches_[v.id] = reaches;
      definition_[v.id] = &equation;
    }
  }

  /// A checkpoint's body takes its own out, too: what it computes of outer values before they vary is computed varying.
  void open(const Equation& equation) {
    if (equation.primitive != &primitives::checkpoint()) return;
    std::vector<bool> outer;
    for (const Var v : equation.inputs) outer.push_back(outer_[v.id] && reaches_[v.id]);
    Hoisted body = hoist_pvary(ir::sub_function(equation.attrs, "body"), outer);
    if (!body.supplied.empty()) opened_.emplace(&equation, std::move(body));
  }

  /// An outer value as a checkpoint is to be supplied with it.
  Var supply_of(Var v, const Supplied& as) {
    const auto input = input_.find(v);
    if (input == input_.end()) return convert(Value(builder_, varied(v, as.axes)), as.dtype).var();
    ArrayType type = f_.type(v);
    type.dtype = as.dtype;
    return supplied(input->second, type, as.axes);
  }

  /// An outer value, made anew from inputs that vary along `axes`.
  Var varied(Var v, const AxisSet& axes) {
    const auto key = std::pair(v, axes.names());
    if (const auto known = made_.find(key); known != made_.end()) return known->second;
    if (const auto input = input_.find(v); input != input_.end()) {
      const AxisSet missing = axes.without(f_.type(v).varying);
      if (missing.empty()) return mapped_[v.id];
      return made_[key] = supplied(input->second, f_.type(v), missing);
    }
    const Equation& equation = *definition_[v.id];
    if (is_pvary(equation)) return made_[key] = varied(equation.inputs[0], axes.joined(ir::named_axes(equation)));
    const auto widened = is_widening(equation) ? input_.find(equation.inputs[0]) : input_.end();
    if (const AxisSet missing = axes.without(f_.type(v).varying); widened != input_.end() && !missing.empty()) {
      return made_[key] = supplied(widened->second, f_.type(v), missing);
    }
    std::vector<Var> operands;
    for (const Var operand : equation.inputs) operands.push_back(varied(operand, axes));
    const std::vector<Var> results = builder_.apply(*equation.primitive, operands, equation.attrs);
    for (std::size_t k = 0; k < results.size(); ++k) {
      made_[{equation.outputs[k], axes.names()}] = builder_.pvary(results[k], axes);
    }
    return made_.at(key);
  }

  bool is_widening(const Equation& equation) const {
    if (equation.primitive != &primitives::convert()) return false;
    const DType from = f_.type(equation.inputs[0]).dtype, to = f_.type(equation.outputs[0]).dtype;
    return is_float(from) && is_float(to) && size_of(to) > size_of(from);
  }

  /// An input of that type, varying along `missing` as well, for that of the function's inputs; one for all who ask.
  Var supplied(std::size_t input, ArrayType type, const AxisSet& missing) {
    const Supplied wanted{input, type.dtype, missing};
    const auto known = std::ranges::find(supplied_, wanted);
    if (known != supplied_.end()) return nth(supplied_inputs_, known - supplied_.begin());
    supplied_.push_back(wanted);
    type.varying = type.varying.joined(missing);
    return supplied_inputs_.emplace_back(builder_.input(type));
  }

  const Function& f_;
  std::vector<bool> outer_;    // per var: depends on outer inputs alone, through ops that any variance suits
  std::vector<bool> reaches_;  // per var: depends on an outer input
  std::vector<const Equation*> definition_;
  std::map<Var, std::size_t> input_;
  std::vector<Var> mapped_;  // per var, where it went
  std::map<std::pair<Var, std::vector<std::string>>, Var> made_;
  std::map<const Equation*, Hoisted> opened_;  // checkpoints whose bodies had a pvary to take out
  std::vector<Supplied> supplied_;
  std::vector<Var> supplied_inputs_;
  Builder builder_;
};

}  // namespace

Var supply(Builder& builder, Var operand, const Supplied& supplied) {
  return builder.pvary(convert(Value(builder, operand), supplied.dtype).var(), supplied.axes);
}

Hoisted hoist_pvary(const FunctionPtr& function, const std::vector<bool>& outer) {
  PvaryHoist hoist(*function, outer);
  return hoist.any() ? hoist.run() : Hoisted{function, {}};
}

// ---- checks

void expect_axes(const ir::InferContext& context, const Function& function, std::string_view attribute) {
  if (function.axes() == context.axes) return;
  throw IrError(std::string(context.op) + " given " + std::string(attribute) +
                " written under other mesh axes than the equation stands under; expected the same; instead write it "
                "under the same axes");
}

void expect_count(const ir::InferContext& context, std::size_t count) {
  if (context.inputs.size() == count) return;
  throw IrError(std::string(context.op) + " given " + std::to_string(context.inputs.size()) + " operands; expected " +
                std::to_string(count) + ", one for each input of its sub-functions; instead pass as many");
}

void expect_type(const ir::InferContext& context, const std::string& what, const ArrayType& given,
                 const ArrayType& expected, std::string_view instead) {
  if (given == expected) return;
  const std::string text = std::string(context.op) + ": " + what + " is " + to_string(given) + ", expected " +
                           to_string(expected) + "; instead " + std::string(instead);
  if (given.dtype != expected.dtype) throw DtypeError(text);
  if (!(given.shape == expected.shape)) throw ShapeError(text);
  throw MeshError(text);
}

}  // namespace lockstep::ops::control_flow
