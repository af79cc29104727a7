#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/builder.h"
#include "engine/ir/function.h"
#include "engine/ir/primitive.h"

// What the transforms share: following a function's vars into a new builder, and which equations depend on what.
namespace lockstep::transform {

/// Where the vars of one function went in another.
class VarMap {
 public:
  explicit VarMap(const ir::Function& f) : to_(f.types().size()) {}

  void set(ir::Var from, ir::Var to) { to_[from.id] = to; }
  void set(std::span<const ir::Var> from, std::span<const ir::Var> to);
  bool has(ir::Var from) const { return to_[from.id].has_value(); }
  /// Empty where the var went nowhere.
  std::optional<ir::Var> find(ir::Var from) const { return to_[from.id]; }
  ir::Var at(ir::Var from) const { return to_[from.id].value(); }
  std::vector<ir::Var> at(std::span<const ir::Var> from) const;

 private:
  std::vector<std::optional<ir::Var>> to_;
};

/// Emits the marked equations again under their provenance, their results entered into `map`.
void emit_marked(ir::Builder& builder, const ir::Function& f, const std::vector<bool>& marked, VarMap& map);

/// Zeros of a type, varying as it says.
ir::Var emit_zeros(ir::Builder& builder, const ArrayType& type);
/// `v` made varying as `type` says. Throws IrError naming `op` where v differs from it in more than that.
ir::Var as_type(ir::Builder& builder, ir::Var v, const ArrayType& type, std::string_view op);

/// Per var, whether it depends on a marked one (marked ones do).
std::vector<bool> depends_on(const ir::Function& f, std::vector<bool> marked);
/// Per equation, whether a wanted var needs it, or it has an effect.
std::vector<bool> needed_for(const ir::Function& f, std::span<const ir::Var> wanted);

/// Whether operand `i` is among those in which the op is linear. False for kinds that are not linear at all.
bool linear_in(const ir::Derivative& derivative, std::size_t i);

/// "dot_general (in layer 'block/dense')", for messages.
std::string describe(const ir::Equation& equation);
/// Throws ValueError where `active` has not one entry per input, DtypeError where an active input has no derivative.
void check_active(const ir::Function& f, const std::vector<bool>& active, std::string_view transform);

}  // namespace lockstep::transform
