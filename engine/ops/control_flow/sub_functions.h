#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

// What the ops with sub-functions share: writing them, taking them apart, fitting them to what varies.
namespace lockstep::ops::control_flow {

using ir::FunctionPtr;

/// Positions in a list of inputs or outputs.
using Places = std::vector<std::size_t>;

/// `count` places from `first` on.
Places places(std::size_t first, std::size_t count);
/// The places whose flag is `flag`.
Places places_of(const std::vector<bool>& flags, bool flag);
Places joined(Places a, const Places& b);
template <class T>
std::vector<T> at(std::span<const T> all, const Places& places) {
  std::vector<T> picked;
  for (const std::size_t place : places) picked.push_back(all[place]);
  return picked;
}

/// A function of inputs of the given types.
using Body = std::function<std::vector<Value>(ir::Builder&, std::span<const Value>)>;
FunctionPtr write(const ir::AxisSizes& axes, std::span<const ArrayType> types, const Body& body);
/// The results of a function, its equations copied.
std::vector<Value> call(ir::Builder& builder, const ir::Function& function, std::span<const Value> arguments);
/// Whether equations with effects stay where they can, though no output needs them.
enum class Effects : std::uint8_t { kept, left_out };
/// The function with these inputs and outputs, in this order, and the equations that the outputs need. Inputs left out must
/// not be among what they need.
FunctionPtr pick(const ir::Function& function, const Places& inputs, const Places& outputs,
                 Effects effects = Effects::kept);
/// Per input, whether an output or an effect needs it.
std::vector<bool> used_inputs(const ir::Function& function);
/// Per var, whether it depends on an input whose flag is set.
std::vector<bool> dependent_vars(const ir::Function& function, const std::vector<bool>& inputs);

std::vector<ArrayType> types_of(std::span<const Value> values);
Value zeros_of(ir::Builder& builder, const ArrayType& type);  ///< Varying as the type says.
/// The axes that each type varies along.
std::vector<AxisSet> varying_of(const std::vector<ArrayType>& types);
/// The operands, each varying along its axes as well.
std::vector<ir::Var> pvaried(ir::Builder& builder, std::span<const ir::Var> operands, std::span<const AxisSet> axes);
/// The value varying along these axes as well.
Value varying_along(const Value& x, const AxisSet& axes);

/// The axes that collectives in the function, or in its sub-functions, communicate along.
AxisSet collective_axes(const ir::Function& function);
/// The function for inputs that vary along more axes each; types are inferred anew.
FunctionPtr with_varying_inputs(const FunctionPtr& function, std::span<const AxisSet> more);
/// The function with outputs that vary along more axes each.
FunctionPtr with_varying_outputs(const FunctionPtr& function, std::span<const AxisSet> more);

/// An input to be supplied by pvary of another one, converted first.
struct Supplied {
  std::size_t input;
  DType dtype;
  AxisSet axes;
  bool operator==(const Supplied&) const = default;
};
ir::Var supply(ir::Builder& builder, ir::Var operand, const Supplied& supplied);
/// Every pvary of what depends on `outer` inputs alone is left to the caller: the inputs in `supplied`, behind the others,
/// are pvary of inputs the function had. So a loop or a branch contains no pvary of what it captures, and its transpose no
/// psum. Where a narrow input is widened before it varies, the caller widens it: the transpose's psum then adds up what
/// is not yet rounded to the narrow dtype, as it does without a loop or branch.
struct Hoisted {
  FunctionPtr function;
  std::vector<Supplied> supplied;
};
Hoisted hoist_pvary(const FunctionPtr& function, const std::vector<bool>& outer);

/// Throws IrError where the function was written under other axes than the equation stands under.
void expect_axes(const ir::InferContext& context, const ir::Function& function, std::string_view attribute);
/// Throws IrError where there are not as many operands.
void expect_count(const ir::InferContext& context, std::size_t count);
/// Throws ShapeError, DtypeError or MeshError naming `what` where the types differ; `instead` says what to do about it.
void expect_type(const ir::InferContext& context, const std::string& what, const ArrayType& given,
                 const ArrayType& expected, std::string_view instead);

}  // namespace lockstep::ops::control_flow
