#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

// What the rules of ops with one sub-function share: what becomes of the body, and what it is then applied to. And the
// whole rules of those whose value is their body's, so that every transform of such an op is the op on another body.
namespace lockstep::ops::sub_function {

using ir::FunctionPtr;

/// The function as an attribute.
inline std::shared_ptr<const AttrObject> attribute(const FunctionPtr& f) { return f; }
/// The function that is the attribute `body`.
inline FunctionPtr body_of(const Attrs& attrs) { return ir::sub_function(attrs, "body"); }
/// A function of inputs of these types.
using Formula = std::vector<Value> (*)(ir::Builder&, std::span<const Value>);
FunctionPtr write(const ir::AxisSizes& axes, const std::vector<ArrayType>& types, Formula formula);
/// The function between other inputs and outputs, with the equations that these outputs need.
FunctionPtr with_signature(const ir::Function& f, std::vector<ir::Var> inputs, std::vector<ir::Var> outputs);
/// The primitive's results; there may be no operand.
std::vector<Value> apply_to(ir::Builder& builder, const ir::Primitive& primitive, std::span<const Value> operands,
                            Attrs attrs);

/// Those of `all` whose mark is `mark`.
template <class Range>
auto marked(const Range& all, const std::vector<bool>& marks, bool mark) {
  std::vector<typename Range::value_type> result;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] == mark) result.push_back(all[i]);
  }
  return result;
}
template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// A body's jvp, and the operands followed by the tangents that there are.
struct JvpBody {
  ir::Differentiated both;
  std::vector<bool> active;
  std::vector<Value> operands;
};
JvpBody jvp_body(const ir::JvpContext& context, const FunctionPtr& body);
/// Results of the jvp as outputs and tangents.
ir::JointTangents joint_tangents(std::span<const Value> results, const std::vector<bool>& active);

/// A body's transpose in its absent operands, from the cotangents that there are.
struct TransposedBody {
  FunctionPtr function;
  std::vector<bool> linear;     ///< Per operand.
  std::vector<bool> given;      ///< Per result: whether it has a cotangent.
  std::vector<Value> operands;  ///< What is not linear, then the cotangents.
};
TransposedBody transposed_body(const ir::TransposeContext& context, const FunctionPtr& body);
/// Results of the transpose as cotangents of all operands.
std::vector<ir::Tangent> operand_cotangents(std::span<const Value> results, const std::vector<bool>& linear);

/// Results of the known and the unknown part in the order of the whole.
ir::SplitResult joined_results(const std::vector<bool>& unknown, std::span<const Value> known,
                               std::span<const Value> late);

// ---- ops whose value is that of their attribute `body`

/// The body's types. Throws IrError where operands or axes are not those it was traced under.
std::vector<ArrayType> infer(const ir::InferContext& context);
/// The op on what becomes of its body.
ir::JointTangents tangents(const ir::Primitive& self, const ir::JvpContext& context);
std::vector<ir::Tangent> transpose(const ir::Primitive& self, const ir::TransposeContext& context);
std::vector<Value> batch(const ir::Primitive& self, const ir::BatchContext& context);

}  // namespace lockstep::ops::sub_function
