#pragma once

#include <string>
#include <vector>

#include "engine/ir/function.h"

namespace lockstep::ops::call {

/// Which values of a checkpointed body are kept for the backward pass; all others are computed again.
class SavePolicy {
 public:
  /// From the attributes `policy` and `names`. Throws ValueError listing the policies where there is none of that name.
  static SavePolicy of(const Attrs& attrs);

  /// Per var of a function, whether it is kept: what the policy says, and the results of everything that communicates.
  std::vector<bool> kept(const ir::Function& f) const;

 private:
  enum class Kind : std::uint8_t { nothing, everything, dots, dots_with_no_batch_dims, only_names, all_but_names };

  bool keeps(const ir::Equation& equation) const;
  bool names(const ir::Equation& equation) const;

  Kind kind_ = Kind::nothing;
  std::vector<std::string> names_;
};

}  // namespace lockstep::ops::call
