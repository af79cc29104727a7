#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

// What ops with derivative rules of the user share. Their operands are `arguments` arguments, and then what the user's
// functions closed over.
namespace lockstep::ops::call {

/// A derivative of kind joint; without a transpose the op is linear in nothing.
ir::Derivative joint(ir::JointJvpRule tangents, ir::TransposeRule transpose);

/// The attribute `arguments`. Throws IrError where there are fewer operands.
std::size_t argument_count(const ir::InferContext& context);
std::vector<bool> inexact(std::span<const ArrayType> types);
/// Throws IrError where the attribute `name`, `f`, does not take `in` to `out`.
void expect_signature(const ir::InferContext& context, std::string_view name, const ir::Function& f,
                      std::span<const ArrayType> in, std::span<const ArrayType> out);

/// Throws TraceError where a closed-over operand has a tangent.
void refuse_closed_over(const ir::JvpContext& context, std::string_view op);
/// One tangent for each argument of float or complex type.
std::vector<ir::Tangent> given_tangents(const ir::JvpContext& context);
/// Likewise, zeros where there is none.
std::vector<Value> all_tangents(const ir::JvpContext& context);
/// Zeros, varying as the type says.
Value typed_zeros(ir::Builder& builder, const ArrayType& type);
/// The function's results, its equations copied.
std::vector<Value> inlined(ir::Builder& builder, const ir::Function& f, std::span<const Value> operands);
/// Likewise, absent operands and results being zeros that are not computed: what is linear in the operands that are
/// there stays linear, where a product with written-out zeros would be a constant beside it.
std::vector<ir::Tangent> inlined_without_zeros(ir::Builder& builder, const ir::Function& f,
                                               std::span<const ir::Tangent> operands);

/// One argument of each float dtype and small shape, with the attributes for its type.
std::vector<ir::Sample> samples_of(Attrs (*attributes)(const ArrayType&));
/// x * x * x, the body of samples.
inline std::vector<Value> cubed(ir::Builder&, std::span<const Value> x) { return {x[0] * x[0] * x[0]}; }

/// A backward rule whose cotangents vary as their arguments do: what varies along more is summed over it.
ir::FunctionPtr cotangents_varying_as(const ir::FunctionPtr& bwd, const std::vector<AxisSet>& arguments);

}  // namespace lockstep::ops::call
