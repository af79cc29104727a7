#include "engine/optim_contrib/rate_free/distance_estimate.h"

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"

namespace lockstep::optim {

Tree first_distance_estimate(std::string_view rule, const Tree& params, double first_estimate) {
  check_real(rule, params);
  const DType dtype = dtype_of_sums(params);
  return first_moments(params)
      .with("sum", zeros_of(params))
      .with("estimate", Tree(full({}, first_estimate, dtype)))
      .with("numerator", Tree(full({}, 0.0, dtype)));
}

Array corrected_step(const LearningRate& rate, const Array& before, double b1, double b2, const Array& estimate) {
  const Array count = before + 1;
  const Array factor = rate.schedule()(before) * correction(b1, count) / sqrt(correction(b2, count));
  return estimate * convert(factor, estimate.dtype());
}

}  // namespace lockstep::optim
