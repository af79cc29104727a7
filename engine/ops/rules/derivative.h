#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

// Families of derivatives. A rule must emit only equations that are linear in the tangents.
namespace lockstep::ops::derivative {

using ir::Derivative;
using ir::JvpContext;
using ir::Tangent;
using ir::TransposeContext;

/// No derivative flows.
Derivative zero();

/// A whole rule.
Derivative jvp(ir::JvpRule rule);

/// What one operand's tangent adds to output 0's tangent; empty where none flows through that operand.
using Contribution = std::function<Tangent(const JvpContext&, const Value& tangent)>;
/// The sum of the contributions of the operands that have a tangent.
ir::JvpRule sum_of(std::vector<Contribution> contributions);
Derivative per_operand(std::vector<Contribution> contributions);
/// Of an operand of `op` in which it has no derivative: TraceError.
Contribution refused(std::string op, std::string operand);

/// One operand: (x, y, dx) -> dy.
Derivative unary(std::function<Value(const Value& x, const Value& y, const Value& dx)> rule);

/// Linear, jointly, in the operands of `linear_in` (empty: all). `jvp` where absent tangents need care.
Derivative linear(ir::TransposeRule transpose, std::vector<int> linear_in = {}, ir::JvpRule jvp = nullptr);

/// Linear in operand `operand` alone; `transpose` gives its cotangent from output 0's. The other operands are in
/// `context.inputs`.
Derivative linear_in_one(int operand, std::function<Value(const TransposeContext&, const Value& cotangent)> transpose);

/// Linear in operand 0 alone and in operand 1 alone: each side's cotangent from output 0's and the other operand.
using Side = std::function<Value(const TransposeContext&, const Value& cotangent, const Value& other)>;
Derivative bilinear(Side left, Side right);

Tangent add_tangents(const Tangent& a, const Tangent& b);
/// The tangent, or zeros of `type` where it is absent.
Value or_zeros(ir::Builder& builder, const Tangent& tangent, const ArrayType& type);
/// Cotangents with only one present.
std::vector<Tangent> only(std::size_t count, std::size_t index, Value cotangent);

}  // namespace lockstep::ops::derivative
