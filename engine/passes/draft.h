#pragma once

#include <vector>

#include "engine/ir/function.h"
#include "engine/ir/rewrite.h"
#include "engine/ir/sub_functions.h"

namespace lockstep::passes {

using ir::Draft;
using ir::map_sub_functions;
using ir::rewrite_each;

/// What each var is replaced by; a var that was never replaced stands for itself.
class Substitution {
 public:
  void replace(ir::Var old_var, ir::Var new_var);
  ir::Var operator()(ir::Var v) const;
  void apply(std::vector<ir::Var>& vars) const;

 private:
  std::vector<ir::Var> by_id_;
};

}  // namespace lockstep::passes
