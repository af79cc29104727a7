#include "engine/nn/losses/focal_factor.h"

#include <lockstep/ops.h>

#include "engine/nn/losses/loss_operands.h"

namespace lockstep::nn {

void check_focal(std::string_view of, const FocalOptions& options) {
  check_option(options.gamma >= 0, of, "gamma", options.gamma, "0 or more");
  const double alpha = options.alpha.value_or(1);
  check_option(alpha >= 0 && alpha <= 1, of, "alpha", alpha, "in [0, 1]");
  check_option(options.label_smoothing >= 0 && options.label_smoothing < 1, of, "label_smoothing",
               options.label_smoothing, "in [0, 1)");
}

Array focal_factor(const Array& left, double gamma) {
  if (gamma == 0) return ones_like(left);
  if (gamma == 1) return left;
  // Below that, squares of slopes vanish and powers of what they are multiplied by overflow.
  const Array some = left > (left.dtype() == float64 ? 0x1p-511 : 0x1p-63);
  return where(some, pow(where(some, left, 1), gamma), stop_gradient(pow(where(some, 1, left), gamma)));
}

}  // namespace lockstep::nn
