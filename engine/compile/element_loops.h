#pragma once

#include <memory>
#include <vector>

#include <lockstep/backend/element_loop.h>

#include "engine/ir/function.h"

namespace lockstep::compile {

using namespace backend;

/// The body of a `fused` as a kernel is asked for it.
struct LoweredLoop {
  std::shared_ptr<const ElementLoop> loop;
  std::vector<std::size_t> inputs;  ///< Which input of the body each operand of the loop is.
  /// Whether it may be cut anywhere: every operand is of the loop's shape or one element, every sum over all elements.
  bool is_flat = false;
};
LoweredLoop lower_loop(const ir::Function& body);

/// A flat loop over a single dimension, with its sums; `is_full` marks the operands that are not one element.
std::shared_ptr<const ElementLoop> flattened(const ElementLoop& loop, const std::vector<bool>& is_full);

}  // namespace lockstep::compile
