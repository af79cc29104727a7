#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/transform/transforms.h"
#include "tests/support/directions.h"
#include "tests/support/op_functions.h"

// Every op through linearize and transpose: what its derivative rule emits is linear, and has transposes throughout.
namespace lockstep::tests {
namespace {

Arrays directions(const std::vector<ArrayType>& types, std::uint64_t seed) {
  Arrays arrays;
  for (const ArrayType& type : types) arrays.push_back(direction(type, seed++));
  return arrays;
}

/// Nothing flows through these operands: the op refuses to.
bool refuses(const ir::Primitive& op, std::size_t operand) {
  if (op.name == "igamma_grad_a") return operand == 0;
  return ((op.name == "betainc" || op.name == "hyp1f1") && operand < 2) || (op.name == "hyp2f1" && operand < 3);
}

Arrays from(const Arrays& a, std::size_t first) { return {a.begin() + static_cast<std::ptrdiff_t>(first), a.end()}; }

/// <u, J t> by jvp against <J^T u, t> by linearize and transpose.
void check_duality(const ir::Primitive& op, const ir::Sample& sample) {
  const FunctionPtr f = primal_function(op, sample);
  std::vector<bool> active;
  std::vector<ArrayType> tangent_types, cotangent_types;
  for (const ArrayType& type : f->input_types()) {
    active.push_back(is_double(type.dtype) && !refuses(op, active.size()));
    if (active.back()) tangent_types.push_back(whole_type(type, sample.axes));
  }
  for (const ArrayType& type : f->output_types()) {
    if (is_double(type.dtype)) cotangent_types.push_back(whole_type(type, sample.axes));
  }
  const Arrays x = draw(sample, 6);
  const Arrays t = directions(tangent_types, 7);
  const Arrays u = directions(cotangent_types, 80);
  const std::size_t results = f->outputs().size();
  const Arrays forward = run(over_mesh(transform::jvp(f, active)), followed_by(x, t));
  const Arrays backward = run(over_mesh(transform::vjp(f, active)), followed_by(x, u));
  CHECK(inner_product(u, from(forward, results)) ==
        doctest::Approx(inner_product(from(backward, results), t)).epsilon(1e-9));
}

}  // namespace

TEST_CASE("every op that is differentiable can be transposed after linearization") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    if (op.derivative.kind == ir::Derivative::Kind::zero || !has_forward_derivative(op)) continue;
    if (op.name == "while_loop" || op.name == "random_gamma_grad") continue;  // their rule is to refuse
    int checked = 0;
    for (const ir::Sample& sample : op.samples()) {
      if (!all_double(input_types(sample)) || !all_double(output_types(op, sample))) continue;
      CAPTURE(text(op, sample));
      check_duality(op, sample);
      ++checked;
    }
    CAPTURE(op.name);
    CHECK(checked > 0);
  }
}

}  // namespace lockstep::tests
