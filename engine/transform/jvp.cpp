#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/replay.h"
#include "engine/transform/transforms.h"

namespace lockstep::transform {

namespace {

using ir::Builder;
using ir::Derivative;
using ir::Equation;
using ir::Function;
using ir::Tangent;
using ir::Value;
using ir::Var;

/// One equation in the new function, its primal results computed already.
struct Site {
  Builder& builder;
  const Equation& equation;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  std::vector<Tangent> tangents;

  const Derivative& derivative() const { return equation.primitive->derivative; }
};

std::vector<Tangent> apply_rule(const Site& site) {
  if (!site.derivative().jvp) {
    throw TraceError("jvp: " + describe(site.equation) +
                     " has no derivative rule; put stop_gradient on its operands "
                     "if none is wanted");
  }
  return site.derivative().jvp(
      {site.builder, site.equation.attrs, site.inputs, site.outputs, site.tangents, &transforms()});
}

std::vector<Tangent> apply_to(const Site& site, std::span<const Value> operands) {
  std::vector<Tangent> results;
  for (const Value& v : ops::apply(*site.equation.primitive, operands, site.equation.attrs)) results.emplace_back(v);
  return results;
}

std::vector<Tangent> linear_tangents(const Site& site) {
  if (site.derivative().jvp) return apply_rule(site);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < site.inputs.size(); ++i) {
    const bool linear = linear_in(site.derivative(), i);
    if (!linear && site.tangents[i]) {
      throw TraceError("jvp: " + describe(site.equation) + " has no derivative with respect to operand " +
                       std::to_string(i) + "; put stop_gradient on it if none is wanted");
    }
    if (!linear) {
      operands.push_back(site.inputs[i]);
    } else if (site.tangents[i]) {
      operands.push_back(*site.tangents[i]);
    } else {
      operands.emplace_back(site.builder, emit_zeros(site.builder, site.inputs[i].type()));
    }
  }
  return apply_to(site, operands);
}

std::vector<Tangent> bilinear_tangents(const Site& site) {
  std::vector<Tangent> sum;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!site.tangents[i]) continue;
    std::vector<Value> operands = site.inputs;
    operands[i] = *site.tangents[i];
    std::vector<Tangent> term = apply_to(site, operands);
    if (!sum.empty()) term[0] = ops::add(*sum[0], *term[0]);
    sum = std::move(term);
  }
  return sum;
}

std::vector<Tangent> output_tangents(const Site& site) {
  switch (site.derivative().kind) {
    case Derivative::Kind::zero:
      break;
    case Derivative::Kind::linear:
      return linear_tangents(site);
    case Derivative::Kind::bilinear:
      return bilinear_tangents(site);
    case Derivative::Kind::jvp:
      return apply_rule(site);
    case Derivative::Kind::joint:
      throw IrError("jvp: the tangents of " + describe(site.equation) + " come with its outputs");
  }
  return std::vector<Tangent>(site.outputs.size());
}

/// Replays a function with a tangent beside every value that has one.
class Replay {
 public:
  explicit Replay(const Function& f) : f_(f), builder_(f.axes()), primal_(f), tangent_(f) {}

  ir::Differentiated run(const std::vector<bool>& active, const std::vector<bool>& forced) {
    for (const Var v : f_.inputs()) primal_.set(v, builder_.input(f_.type(v)));
    for (std::size_t i = 0; i < active.size(); ++i) {
      const Var v = f_.inputs()[i];
      if (active[i]) tangent_.set(v, builder_.input(f_.type(v)));
    }
    for (const Equation& equation : f_.equations()) replay(equation);
    builder_.set_provenance({});
    std::vector<Var> outputs = primal_.at(f_.outputs());
    std::vector<bool> has_tangent;
    for (std::size_t i = 0; i < f_.outputs().size(); ++i) {
      const Var v = f_.outputs()[i];
      const auto tangent = tangent_.find(v);
      has_tangent.push_back(tangent || (forced[i] && is_inexact(f_.type(v).dtype)));
      if (has_tangent[i]) outputs.push_back(tangent ? *tangent : emit_zeros(builder_, f_.type(v)));
    }
    return {builder_.finish(std::move(outputs)), std::move(has_tangent)};
  }

 private:
  void replay(const Equation& equation) {
    builder_.set_provenance(equation.provenance);
    bool any_tangent = false;
    bool any_inexact = false;
    for (const Var v : equation.inputs) any_tangent = any_tangent || tangent_.has(v);
    for (const Var v : equation.outputs) any_inexact = any_inexact || is_inexact(f_.type(v).dtype);
    const bool differentiated = any_tangent && any_inexact;
    if (differentiated && equation.primitive->derivative.joint) return differentiate_jointly(equation);
    primal_.set(equation.outputs, builder_.apply(*equation.primitive, primal_.at(equation.inputs), equation.attrs));
    if (differentiated) differentiate(equation);
  }

  Site site_of(const Equation& equation) {
    Site site{builder_, equation, {}, {}, {}};
    for (const Var v : equation.inputs) {
      const auto tangent = tangent_.find(v);
      site.inputs.emplace_back(builder_, primal_.at(v));
      site.tangents.push_back(tangent ? Tangent(Value(builder_, *tangent)) : Tangent());
    }
    return site;
  }

  void differentiate_jointly(const Equation& equation) {
    const Site site = site_of(equation);
    const ir::JointTangents joint =
        equation.primitive->derivative.joint({builder_, equation.attrs, site.inputs, {}, site.tangents, &transforms()});
    if (joint.outputs.size() != equation.outputs.size()) {
      throw IrError("jvp: the rule of " + describe(equation) + " gave " + std::to_string(joint.outputs.size()) +
                    " outputs for " + std::to_string(equation.outputs.size()) + " results");
    }
    for (std::size_t i = 0; i < joint.outputs.size(); ++i) {
      const Var v = equation.outputs[i];
      primal_.set(v, as_type(builder_, joint.outputs[i].var(), f_.type(v), describe(equation)));
    }
    set_tangents(equation, joint.tangents);
  }

  void differentiate(const Equation& equation) {
    Site site = site_of(equation);
    for (const Var v : equation.outputs) site.outputs.emplace_back(builder_, primal_.at(v));
    set_tangents(equation, output_tangents(site));
  }

  void set_tangents(const Equation& equation, const std::vector<Tangent>& tangents) {
    if (tangents.size() != equation.outputs.size()) {
      throw IrError("jvp: the rule of " + describe(equation) + " gave " + std::to_string(tangents.size()) +
                    " tangents for " + std::to_string(equation.outputs.size()) + " results");
    }
    for (std::size_t i = 0; i < tangents.size(); ++i) {
      const Var v = equation.outputs[i];
      if (!tangents[i] || !is_inexact(f_.type(v).dtype)) continue;
      tangent_.set(v, as_type(builder_, tangents[i]->var(), f_.type(v), describe(equation)));
    }
  }

  const Function& f_;
  Builder builder_;
  VarMap primal_;
  VarMap tangent_;
};

}  // namespace

FunctionPtr jvp(const FunctionPtr& f, const std::vector<bool>& active) {
  return jvp(f, active, std::vector<bool>(f->outputs().size(), true)).function;
}

ir::Differentiated jvp(const FunctionPtr& f, const std::vector<bool>& active, const std::vector<bool>& forced) {
  check_active(*f, active, "jvp");
  return Replay(*f).run(active, forced);
}

const ir::Transforms& transforms() {
  static const ir::Transforms all{jvp, partition, transpose, vmap};
  return all;
}

}  // namespace lockstep::transform
