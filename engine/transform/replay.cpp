#include "engine/transform/replay.h"

#include <algorithm>

#include <lockstep/error.h>

#include "engine/ir/custom_op.h"
#include "engine/ops/values.h"

namespace lockstep::transform {

using ir::Builder;
using ir::Derivative;
using ir::Equation;
using ir::Function;
using ir::Var;

void VarMap::set(std::span<const Var> from, std::span<const Var> to) {
  for (std::size_t i = 0; i < from.size(); ++i) set(from[i], to[i]);
}

std::vector<Var> VarMap::at(std::span<const Var> from) const {
  std::vector<Var> result;
  result.reserve(from.size());
  for (const Var v : from) result.push_back(at(v));
  return result;
}

void emit_marked(Builder& builder, const Function& f, const std::vector<bool>& marked, VarMap& map) {
  for (std::size_t i = 0; i < f.equations().size(); ++i) {
    const Equation& equation = f.equations()[i];
    if (!marked[i]) continue;
    builder.set_provenance(equation.provenance);
    map.set(equation.outputs, builder.apply(*equation.primitive, map.at(equation.inputs), equation.attrs));
  }
}

Var emit_zeros(Builder& builder, const ArrayType& type) {
  return builder.pvary(ops::zeros(builder, type).var(), type.varying);
}

Var as_type(Builder& builder, Var v, const ArrayType& type, std::string_view op) {
  const ArrayType& given = builder.type(v);
  if (given.dtype != type.dtype || given.shape != type.shape || !type.varying.contains(given.varying)) {
    throw IrError(std::string(op) + ": its derivative rule gave " + to_string(given) + " where " + to_string(type) +
                  " is needed");
  }
  return builder.pvary(v, type.varying);
}

std::vector<bool> depends_on(const Function& f, std::vector<bool> marked) {
  for (const Equation& equation : f.equations()) {
    const bool any = std::ranges::any_of(equation.inputs, [&](Var v) { return marked[v.id]; });
    if (!any) continue;
    for (const Var v : equation.outputs) marked[v.id] = true;
  }
  return marked;
}

std::vector<bool> needed_for(const Function& f, std::span<const Var> wanted) {
  std::vector<bool> live(f.types().size());
  for (const Var v : wanted) live[v.id] = true;
  std::vector<bool> needed(f.equations().size());
  for (std::size_t i = f.equations().size(); i-- > 0;) {
    const Equation& equation = f.equations()[i];
    needed[i] = std::ranges::any_of(equation.outputs, [&](Var v) { return live[v.id]; }) || ir::has_effects(equation);
    if (!needed[i]) continue;
    for (const Var v : equation.inputs) live[v.id] = true;
  }
  return needed;
}

bool linear_in(const Derivative& derivative, std::size_t i) {
  switch (derivative.kind) {
    case Derivative::Kind::joint:
      return false;
    case Derivative::Kind::bilinear:
      return i < 2;
    case Derivative::Kind::linear:
      if (derivative.linear_in.empty()) return true;
      break;
    case Derivative::Kind::zero:
    case Derivative::Kind::jvp:
      break;
  }
  return std::ranges::find(derivative.linear_in, static_cast<int>(i)) != derivative.linear_in.end();
}

std::string describe(const Equation& equation) {
  const auto& scope = equation.provenance.scope;
  const ir::CustomOpPtr custom = ir::custom_op(equation.attrs);
  const std::string op = custom == nullptr ? equation.primitive->name : custom->text();
  return op + (scope && !scope->empty() ? " (in layer '" + *scope + "')" : "");
}

void check_active(const Function& f, const std::vector<bool>& active, std::string_view transform) {
  const auto types = f.input_types();
  if (active.size() != types.size()) {
    throw ValueError(std::string(transform) + ": " + std::to_string(active.size()) + " activity flags for " +
                     std::to_string(types.size()) + " inputs; give one per input");
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!active[i] || is_inexact(types[i].dtype)) continue;
    throw DtypeError(std::string(transform) + ": input " + std::to_string(i) + " is " + to_string(types[i]) +
                     ", but only float and complex inputs have a derivative; leave it out of the differentiated "
                     "arguments or convert it to float32");
  }
}

}  // namespace lockstep::transform
