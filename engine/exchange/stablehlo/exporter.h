#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/types.h>

#include "engine/ir/function.h"

namespace lockstep::exchange {

/// A value of the text that is written.
struct Term {
  std::string name;  ///< With its '%'.
  ArrayType type;
};
using Terms = std::vector<Term>;
std::vector<ArrayType> types_of(const Terms& terms);
using Integers = std::vector<std::int64_t>;

/// Writes StableHLO's text, op by op.
class Exporter {
 public:
  /// The module of a function whose last inputs are these constants.
  std::string module(const ir::Function& function, const std::vector<Array>& constants);

  /// The equations of `function` for these inputs; its outputs.
  Terms body(const ir::Function& function, const Terms& inputs);

  /// One op of one result in the generic form; attributes as "dimension = 0 : i64".
  Term op(std::string_view name, const Terms& operands, const ArrayType& type, const std::string& attributes = "");
  /// Of several results, with regions as they are written.
  Terms ops(std::string_view name, const Terms& operands, const std::vector<ArrayType>& types,
            const std::string& attributes, const std::vector<std::string>& regions);
  /// What `write` writes of a block with arguments of these types, and a return of what it gives.
  std::string region(const std::vector<ArrayType>& types, const std::function<Terms(const Terms&)>& write);

  /// All elements one number; `bits` are those of an element.
  Term splat(const ArrayType& type, double value);
  Term zeros(const ArrayType& type);
  Term splat_integer(const ArrayType& type, std::int64_t value);
  Term reshape(const Term& x, const Integers& shape);
  Term transpose(const Term& x, const Integers& permutation);
  Term swap_axes(const Term& x, int a, int b);
  Term broadcast(const Term& x, const Shape& shape, const Integers& dims);
  Term convert(const Term& x, DType dtype);
  Term binary(std::string_view name, const Term& a, const Term& b) { return op(name, {a, b}, a.type); }
  /// The same bits as elements of another dtype.
  Term bitcast(const Term& x, const ArrayType& type) { return op("stablehlo.bitcast_convert", {x}, type); }
  Term compare(std::string_view direction, const Term& a, const Term& b, bool total_order = false);
  Term select(const Term& predicate, const Term& a, const Term& b);
  Term iota(const ArrayType& type, std::int64_t dim);
  /// By the op of that name, from its neutral element on.
  Term reduce(std::string_view name, const Term& x, const Integers& axes);
  Term reduce_windows(const Term& x, const ArrayType& type, const std::string& attributes, const Term& start,
                      const std::function<Term(const Term&, const Term&)>& combine);
  /// What a reduction by that op begins with.
  Term neutral(std::string_view name, DType dtype);
  Term dot(const Term& a, const Term& b, const std::vector<Integers>& contract, const std::vector<Integers>& batch,
           const ArrayType& type);

 private:
  Terms equation(const ir::Function& function, const ir::Equation& equation, const Terms& operands);
  Term captured(const Array& constant);
  void line(const std::string& text);

  std::string text_;
  std::int64_t next_ = 0;
  int indent_ = 4;
};

/// An equation that is written: its operands' terms and its results' types.
struct Lowering {
  Exporter& out;
  const ir::Equation& equation;
  const Terms& operands;
  std::vector<ArrayType> types;
  std::vector<bool> used;  ///< Of the results.

  const Attrs& attrs() const { return equation.attrs; }
  const Term& x() const { return operands[0]; }
  const ArrayType& type() const { return types[0]; }
  [[noreturn]] void refuse(const std::string& why) const;
};

using LoweringRule = Terms (*)(const Lowering&);
/// The rule of a family for a primitive, or null.
LoweringRule element_wise_rule(const ir::Primitive& primitive);
LoweringRule shape_rule(const ir::Primitive& primitive);
LoweringRule reduction_rule(const ir::Primitive& primitive);
LoweringRule product_rule(const ir::Primitive& primitive);
LoweringRule attention_rule(const ir::Primitive& primitive);
LoweringRule linalg_rule(const ir::Primitive& primitive);
LoweringRule indexing_rule(const ir::Primitive& primitive);
LoweringRule control_flow_rule(const ir::Primitive& primitive);
LoweringRule random_rule(const ir::Primitive& primitive);

/// The type of a value in the text. A key is a number of 64 bits there, its first word the low half; functions take and
/// give keys as words, uint32[..., 2].
ArrayType written_type(const ArrayType& type);

/// "tensor<2x3xf32>".
std::string tensor_type(const ArrayType& type);
/// "array<i64: 1, 2>".
std::string array_attribute(const Integers& values);
/// "[1, 2]".
std::string list_attribute(const Integers& values);
/// "dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>".
std::string pairs_attribute(const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);

}  // namespace lockstep::exchange
