#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "engine/ir/function.h"

namespace lockstep::ir {

/// Numbers the vars of a function in order of definition: inputs first, then the outputs of each equation.
class Numbering {
 public:
  static constexpr std::uint32_t undefined = std::numeric_limits<std::uint32_t>::max();

  Numbering(const std::vector<Var>& inputs, const std::vector<Equation>& equations, std::size_t vars)
      : numbers_(vars, undefined) {
    for (const Var v : inputs) define(v);
    for (const Equation& equation : equations) {
      for (const Var v : equation.outputs) define(v);
    }
  }
  explicit Numbering(const Function& function)
      : Numbering(function.inputs(), function.equations(), function.types().size()) {}

  /// `undefined` for a var that nothing defines.
  std::uint32_t operator[](Var v) const { return v.id < numbers_.size() ? numbers_[v.id] : undefined; }

 private:
  void define(Var v) {
    if (v.id < numbers_.size() && numbers_[v.id] == undefined) numbers_[v.id] = next_++;
  }

  std::vector<std::uint32_t> numbers_;
  std::uint32_t next_ = 0;
};

}  // namespace lockstep::ir
