#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/ir/function.h"

namespace lockstep::ir {

/// Writes a Function equation by equation, inferring types. Mixing operands of different `varying` inserts `pvary`: one
/// per value and axis set, placed right after the value's definition.
class Builder {
 public:
  explicit Builder(AxisSizes axes = {});

  Var input(const ArrayType& type);
  std::vector<Var> apply(const Primitive& primitive, std::span<const Var> inputs, Attrs attrs = {});
  std::vector<Var> apply(const Primitive& primitive, std::initializer_list<Var> inputs, Attrs attrs = {});
  /// `v` made varying along `axes` as well; `v` itself where it is already.
  Var pvary(Var v, const AxisSet& axes);
  /// The outputs of `function` on `arguments`, its equations copied in. Argument types must equal the input types, but
  /// may vary along more axes (then types are inferred anew).
  std::vector<Var> inline_function(const Function& function, std::span<const Var> arguments);

  const ArrayType& type(Var v) const { return types_[v.id]; }
  const AxisSizes& axes() const { return axes_; }
  const std::vector<Var>& inputs() const { return inputs_; }

  /// Marks the equations that follow.
  void set_provenance(Provenance provenance) { provenance_ = std::move(provenance); }
  const Provenance& provenance() const { return provenance_; }
  /// Of the equations from here on.
  void set_place(const detail::SourceLocation& at) { provenance_.at = at; }

  /// The finished function; the builder must not be used afterwards.
  FunctionPtr finish(std::vector<Var> outputs);

 private:
  Var new_var(ArrayType type);
  void check_known(std::span<const Var> vars, const char* where) const;
  /// Whether the arguments have exactly the input types; throws where they do not fit.
  bool check_arguments(const Function& function, std::span<const Var> arguments) const;
  std::vector<Var> add_equation(const Primitive& primitive, std::vector<Var> inputs, Attrs attrs,
                                std::vector<ArrayType> types);

  AxisSizes axes_;
  std::deque<ArrayType> types_;  // a deque: references from `type` outlive the equations that follow
  std::vector<Var> inputs_;
  std::vector<Equation> equations_;
  std::map<Var, std::vector<Equation>> after_;  // pvary equations, put behind their operand's definition by `finish`
  std::map<std::pair<Var, std::vector<std::string>>, Var> pvaried_;
  Provenance provenance_;
};

}  // namespace lockstep::ir
