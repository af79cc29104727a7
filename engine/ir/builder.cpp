#include "engine/ir/builder.h"

#include <lockstep/error.h>

#include "engine/core/checked_sizes.h"
#include "engine/ir/primitive.h"

namespace lockstep::ir {

namespace {

// Equations in order, each followed by the pvary equations of what it defines.
class Placement {
 public:
  explicit Placement(const std::map<Var, std::vector<Equation>>& after) : after_(after) {}

  void put_behind(Var v) {
    const auto place = after_.find(v);
    if (place == after_.end()) return;
    for (const Equation& equation : place->second) put(equation);
  }
  void put(const Equation& equation) {
    placed_.push_back(equation);
    for (const Var v : equation.outputs) put_behind(v);
  }
  std::vector<Equation> take() { return std::move(placed_); }

 private:
  const std::map<Var, std::vector<Equation>>& after_;
  std::vector<Equation> placed_;
};

}  // namespace

Builder::Builder(AxisSizes axes) : axes_(std::move(axes)) {}

Var Builder::new_var(ArrayType type) {
  types_.push_back(std::move(type));
  return Var{static_cast<std::uint32_t>(types_.size() - 1)};
}

void Builder::check_known(std::span<const Var> vars, const char* where) const {
  for (const Var v : vars) {
    if (v.id < types_.size()) continue;
    throw IrError(std::string(where) + ": var " + std::to_string(v.id) + " is not of this builder, which has " +
                  std::to_string(types_.size()) + " vars; pass it in as an input");
  }
}

Var Builder::input(const ArrayType& type) {
  check_size("input", type);
  for (const std::string& axis : type.varying) axes_.size(axis, "input");
  inputs_.push_back(new_var(type));
  return inputs_.back();
}

std::vector<Var> Builder::add_equation(const Primitive& primitive, std::vector<Var> inputs, Attrs attrs,
                                       std::vector<ArrayType> types) {
  std::vector<Var> outputs;
  for (ArrayType& type : types) outputs.push_back(new_var(std::move(type)));
  equations_.push_back({&primitive, std::move(attrs), std::move(inputs), outputs, provenance_});
  return outputs;
}

std::vector<Var> Builder::apply(const Primitive& primitive, std::span<const Var> inputs, Attrs attrs) {
  check_known(inputs, primitive.name.c_str());
  if (&primitive == &pvary_primitive() && inputs.size() == 1) {
    return {pvary(inputs[0], AxisSet(attrs.get<std::vector<std::string>>("axes")))};
  }
  std::vector<Var> operands(inputs.begin(), inputs.end());
  if (primitive.align) {
    Aligned aligned = primitive.align(*this, inputs, attrs);
    operands = std::move(aligned.operands);
    attrs = std::move(aligned.attrs);
  }
  if (!primitive.traits.typed_axes) {
    AxisSet varying;
    for (const Var v : operands) varying = varying.joined(type(v).varying);
    for (Var& v : operands) v = pvary(v, varying);
  }
  std::vector<ArrayType> operand_types;
  for (const Var v : operands) operand_types.push_back(type(v));
  std::vector<ArrayType> types = infer_types(primitive, operand_types, attrs, axes_);
  return add_equation(primitive, std::move(operands), std::move(attrs), std::move(types));
}

std::vector<Var> Builder::apply(const Primitive& primitive, std::initializer_list<Var> inputs, Attrs attrs) {
  return apply(primitive, std::span(inputs.begin(), inputs.size()), std::move(attrs));
}

Var Builder::pvary(Var v, const AxisSet& axes) {
  const Primitive& primitive = pvary_primitive();
  check_known(std::span(&v, 1), primitive.name.c_str());
  for (const std::string& axis : axes) axes_.size(axis, primitive.name);
  const AxisSet missing = axes.without(type(v).varying);
  if (missing.empty()) return v;
  const auto [place, is_new] = pvaried_.try_emplace({v, missing.names()});
  if (!is_new) return place->second;
  ArrayType varying_type = type(v);
  varying_type.varying = varying_type.varying.joined(missing);
  place->second = new_var(std::move(varying_type));
  after_[v].push_back({&primitive, Attrs{{"axes", missing.names()}}, {v}, {place->second}, provenance_});
  return place->second;
}

bool Builder::check_arguments(const Function& function, std::span<const Var> arguments) const {
  check_known(arguments, "inline_function");
  if (arguments.size() != function.inputs().size()) {
    throw IrError("inline_function: got " + std::to_string(arguments.size()) + " arguments for a function of " +
                  std::to_string(function.inputs().size()) + " inputs");
  }
  bool same_types = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ArrayType& given = type(arguments[i]);
    const ArrayType& expected = function.type(function.inputs()[i]);
    if (given.dtype != expected.dtype || given.shape != expected.shape || !given.varying.contains(expected.varying)) {
      throw IrError("inline_function: argument " + std::to_string(i) + " is " + to_string(given) + ", expected " +
                    to_string(expected) + " or one that varies along more axes");
    }
    same_types = same_types && given == expected;
  }
  return same_types;
}

std::vector<Var> Builder::inline_function(const Function& function, std::span<const Var> arguments) {
  const bool same_types = check_arguments(function, arguments);
  std::vector<Var> mapped(function.types().size());
  for (std::size_t i = 0; i < arguments.size(); ++i) mapped[function.inputs()[i].id] = arguments[i];
  const Provenance caller = provenance_;
  for (const Equation& equation : function.equations()) {
    std::vector<Var> operands;
    for (const Var v : equation.inputs) operands.push_back(mapped[v.id]);
    provenance_.scope = equation.provenance.scope != nullptr ? equation.provenance.scope : caller.scope;
    provenance_.backward = equation.provenance.backward || caller.backward;
    provenance_.at = equation.provenance.at.line() != 0 ? equation.provenance.at : caller.at;
    std::vector<Var> results;
    if (same_types && equation.primitive != &pvary_primitive()) {
      std::vector<ArrayType> types;
      for (const Var v : equation.outputs) types.push_back(function.type(v));
      results = add_equation(*equation.primitive, std::move(operands), equation.attrs, std::move(types));
    } else {
      results = apply(*equation.primitive, operands, equation.attrs);
    }
    for (std::size_t i = 0; i < results.size(); ++i) mapped[equation.outputs[i].id] = results[i];
  }
  provenance_ = caller;
  std::vector<Var> outputs;
  for (const Var v : function.outputs()) outputs.push_back(mapped[v.id]);
  return outputs;
}

FunctionPtr Builder::finish(std::vector<Var> outputs) {
  check_known(outputs, "finish");
  Placement placement(after_);
  for (const Var v : inputs_) placement.put_behind(v);
  for (const Equation& equation : equations_) placement.put(equation);
  return std::make_shared<const Function>(std::move(axes_), std::vector<ArrayType>(types_.begin(), types_.end()),
                                          std::move(inputs_), placement.take(), std::move(outputs));
}

}  // namespace lockstep::ir
