#pragma once

#include <vector>

#include <lockstep/precision_policy.h>

namespace lockstep::detail {

/// The precision of a scope and of all below it, in one run of a model function.
struct PrecisionInUse {
  PrecisionPolicy policy;
  std::vector<bool> used = std::vector<bool>(policy.rules().size());  ///< Rules that a layer or variable took.

  PrecisionDTypes of_variable(const std::string& path);
  PrecisionDTypes of_layer(const std::string& path);
};

}  // namespace lockstep::detail
