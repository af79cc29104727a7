#pragma once

#include <optional>
#include <vector>

#include "engine/ir/function.h"
#include "engine/ops/values.h"

// A sum over the iterations of a loop of products of matrices is one product, along the iterations too.
namespace lockstep::ops::control_flow {

/// A dot_general inside a loop's body, and the moves of its elements that follow.
struct Product {
  const ir::Equation* dot;
  std::vector<const ir::Equation*> moves;

  ir::Var left() const { return dot->inputs[0]; }
  ir::Var right() const { return dot->inputs[1]; }
  /// The sum over all iterations, given the factors stacked along a first dimension.
  Value sum(ir::Builder& builder, const Value& lefts, const Value& rights) const;
};

/// The products that a value of the body is the sum of, or nothing where it is anything else.
std::optional<std::vector<Product>> as_products(const ir::Function& body, ir::Var value);

}  // namespace lockstep::ops::control_flow
