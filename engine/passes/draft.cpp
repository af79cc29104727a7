#include "engine/passes/draft.h"

namespace lockstep::passes {

using ir::Var;

void Substitution::replace(Var old_var, Var new_var) {
  while (by_id_.size() <= old_var.id) by_id_.push_back(Var{static_cast<std::uint32_t>(by_id_.size())});
  by_id_[old_var.id] = (*this)(new_var);
}

Var Substitution::operator()(Var v) const { return v.id < by_id_.size() ? by_id_[v.id] : v; }

void Substitution::apply(std::vector<Var>& vars) const {
  for (Var& v : vars) v = (*this)(v);
}

}  // namespace lockstep::passes
