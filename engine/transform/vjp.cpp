#include <lockstep/error.h>

#include "engine/ops/values.h"
#include "engine/transform/replay.h"
#include "engine/transform/reverse.h"
#include "engine/transform/transforms.h"

namespace lockstep::transform {

namespace {

using ir::Builder;
using ir::Function;
using ir::Var;

std::vector<Var> add_inputs(Builder& builder, const Function& f) {
  std::vector<Var> inputs;
  for (const Var v : f.inputs()) inputs.push_back(builder.input(f.type(v)));
  return inputs;
}

/// The results of `forward` in one list, cut where the residuals begin.
struct ForwardVars {
  std::vector<Var> outputs;
  std::vector<Var> residuals;
};

ForwardVars emit_forward(Builder& builder, const Linearized& parts, std::span<const Var> inputs) {
  const std::vector<Var> all = builder.inline_function(*parts.forward, inputs);
  const auto cut = all.end() - parts.residuals;
  return {{all.begin(), cut}, {cut, all.end()}};
}

std::size_t inexact_outputs(const Function& f) {
  std::size_t count = 0;
  for (const Var v : f.outputs()) count += is_inexact(f.type(v).dtype) ? 1 : 0;
  return count;
}

void check_loss(const Function& f, const std::vector<bool>& active, bool holomorphic, const InputName& name) {
  if (f.outputs().empty()) {
    throw ShapeError("value_and_grad: the function returned no array; its first result must be a scalar loss");
  }
  const ArrayType& loss = f.type(f.outputs()[0]);
  if (loss.shape.rank() != 0) {
    throw ShapeError("value_and_grad: the function returned " + to_string(loss) +
                     ", a gradient needs a scalar; reduce it with sum or mean, or use vjp");
  }
  if (holomorphic ? !is_complex(loss.dtype) : !is_float(loss.dtype)) {
    throw DtypeError("value_and_grad: the function returned " + to_string(loss) + ", a gradient needs a " +
                     (holomorphic ? "complex scalar" : "float scalar") + "; convert it");
  }
  for (std::size_t i = 0; i < active.size(); ++i) {
    const ArrayType& type = f.type(f.inputs()[i]);
    if (!active[i] || type.varying.contains(loss.varying)) continue;
    throw MeshError(
        "value_and_grad: the loss " + to_string(loss) + " varies along \"" + to_string(loss.varying) +
        "\", so every replica would differentiate its own part of it, but " +
        (name ? name(i) : "input " + std::to_string(i)) + " is " + to_string(type) +
        ", the same on all of them. psum the loss (or return Weighted{sum, weight} to data_parallel); for a gradient "
        "of each replica's own part, or of each example, differentiate at pvary(argument, axes)");
  }
}

}  // namespace

FunctionPtr vjp(const FunctionPtr& f, const std::vector<bool>& active) {
  check_active(*f, active, "vjp");
  const Linearized parts = linearize(f, active);
  Builder builder(f->axes());
  const std::vector<Var> inputs = add_inputs(builder, *f);
  std::vector<std::optional<Var>> cotangents;
  for (const Var v : f->outputs()) {
    if (is_inexact(f->type(v).dtype)) cotangents.emplace_back(builder.input(f->type(v)));
  }
  ForwardVars forward = emit_forward(builder, parts, inputs);
  const std::vector<Var> gradients = emit_transpose(builder, *parts.linear, forward.residuals, cotangents);
  forward.outputs.insert(forward.outputs.end(), gradients.begin(), gradients.end());
  return builder.finish(std::move(forward.outputs));
}

FunctionPtr value_and_grad(const FunctionPtr& f, const std::vector<bool>& active, bool holomorphic,
                           const InputName& name) {
  check_active(*f, active, "value_and_grad");
  check_loss(*f, active, holomorphic, name);
  std::vector<bool> wanted(inexact_outputs(*f));
  wanted[0] = true;
  const Linearized parts = linearize_wanted(f, active, wanted);
  Builder builder(f->axes());
  const std::vector<Var> inputs = add_inputs(builder, *f);
  ForwardVars forward = emit_forward(builder, parts, inputs);
  const ArrayType& loss = f->type(f->outputs()[0]);
  builder.set_provenance({nullptr, true});
  const std::optional<Var> one = ops::full(builder, loss.dtype, loss.shape, 1).var();
  const std::vector<Var> gradients = emit_transpose(builder, *parts.linear, forward.residuals, std::span(&one, 1));
  forward.outputs.insert(forward.outputs.end(), gradients.begin(), gradients.end());
  return builder.finish(std::move(forward.outputs));
}

}  // namespace lockstep::transform
