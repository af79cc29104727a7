#pragma once

#include <algorithm>
#include <vector>

#include "engine/core/id_vector.h"
#include "engine/ir/function.h"

namespace lockstep::ir {

/// Def-use chains (Aho, Lam, Sethi, Ullman 2006, 9.4): of each value what defines it and what uses it, by number:
/// equations of a function, or what has become of them on the way to an executable. Who fills them says who counts.
class DefUse {
 public:
  /// What defines an input, and who uses a result.
  static constexpr int nobody = -1;

  explicit DefUse(int values) : definition_(values, nobody), uses_(values) {}
  /// Of vars, by equations.
  explicit DefUse(const Function& function) : DefUse(static_cast<int>(function.types().size())) {
    int number = 0;
    for (const Equation& equation : function.equations()) {
      for (const Var v : equation.outputs) define(id(v), number);
      for (const Var v : equation.inputs) use(id(v), number);
      ++number;
    }
    for (const Var v : function.outputs()) use(id(v), nobody);
  }

  /// The last one counts where there are several.
  void define(int value, int by) { definition_[value] = by; }
  void use(int value, int by) { uses_[value].push_back(by); }
  /// `by` uses it no more.
  void drop_use(int value, int by) { std::erase(uses_[value], by); }
  void drop_use(Var v, int by) { drop_use(id(v), by); }

  int definition(int value) const { return definition_[value]; }
  int definition(Var v) const { return definition(id(v)); }
  /// In the order they were given, one as often as it uses the value.
  const std::vector<int>& uses(int value) const { return uses_[value]; }
  const std::vector<int>& uses(Var v) const { return uses(id(v)); }
  /// Whether several use it, or one and the caller.
  bool has_several_users(int value) const {
    const std::vector<int>& all = uses(value);
    return std::ranges::any_of(all, [&](int by) { return by != all.front(); });
  }

 private:
  static int id(Var v) { return static_cast<int>(v.id); }

  IdVector<int> definition_;
  IdVector<std::vector<int>> uses_;
};

}  // namespace lockstep::ir
