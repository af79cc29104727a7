#pragma once

#include <functional>
#include <vector>

#include "engine/ir/function.h"
#include "engine/ir/rewrite.h"
#include "engine/ir/sub_functions.h"

namespace lockstep::passes {

/// The parts of a Function while a pass changes them.
struct Draft {
  explicit Draft(const ir::Function& function);

  /// A new value, to be defined by an equation the pass adds.
  ir::Var new_var(const ArrayType& type);
  const ArrayType& type(ir::Var v) const { return types[v.id]; }
  /// The finished function; types of vars that nothing defines any more are dropped.
  ir::FunctionPtr finish();

  ir::AxisSizes axes;
  std::vector<ArrayType> types;
  std::vector<ir::Var> inputs;
  std::vector<ir::Equation> equations;
  std::vector<ir::Var> outputs;
};

/// What each var is replaced by; a var that was never replaced stands for itself.
class Substitution {
 public:
  void replace(ir::Var old_var, ir::Var new_var);
  ir::Var operator()(ir::Var v) const;
  void apply(std::vector<ir::Var>& vars) const;

 private:
  std::vector<ir::Var> by_id_;
};

using ir::map_sub_functions;
/// The function with that done to all its equations; the same one where no sub-function changes.
ir::FunctionPtr map_sub_functions(const ir::FunctionPtr& function,
                                  const std::function<ir::FunctionPtr(const ir::FunctionPtr&)>& change);

/// The function with the rule applied to every equation of the primitive, in sub-functions first; the same one where
/// there is none.
ir::FunctionPtr rewrite_each(const ir::FunctionPtr& function, const ir::Primitive& primitive,
                             const ir::RewriteRule& rule);

}  // namespace lockstep::passes
