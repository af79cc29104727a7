#include <lockstep/optim_contrib.h>

#include "tests/golden/optax/cases.h"

// Optimizers that look at more of the loss than its gradient.
namespace lockstep::tests::optax {

Array valley(const Tree& params) {
  const Array z = ravel_tree(params).flat;
  const std::int64_t n = z.size();
  const Array places = convert(arange(0, n), z.dtype());
  const Array ahead = slice(z, {1}, {n}), here = slice(z, {0}, {n - 1});
  return sum((places + 1) * square(z - sin(places))) / 10 + sum(square(ahead - square(here)));
}

std::vector<Case> second_order_cases() {
  using namespace optim;
  return {
      {"backtracking",
       {"optim::scale_by_backtracking_linesearch"},
       chain(sgd(1.0), scale_by_backtracking_linesearch({.max_steps = 30, .keeps_gradient = true})),
       false,
       false,
       true},
      {"backtracking_short",
       {"optim::scale_by_backtracking_linesearch"},
       chain(sgd(0.5), scale_by_backtracking_linesearch({.max_steps = 4,
                                                         .slope_share = 0.1,
                                                         .decrease = 0.5,
                                                         .increase = 3,
                                                         .max_rate = 2,
                                                         .absolute = 0.01,
                                                         .relative = 0.01})),
       false,
       false,
       true},
      {"zoom",
       {"optim::scale_by_zoom_linesearch"},
       chain(sgd(1.0), scale_by_zoom_linesearch({.max_steps = 15})),
       false,
       false,
       true},
      {"zoom_strict",
       {"optim::scale_by_zoom_linesearch"},
       chain(scale_by_adam(), scale(-1),
             scale_by_zoom_linesearch({.max_steps = 6,
                                       .max_rate = 0.3,
                                       .tolerance = 1e-3,
                                       .increase = 1.5,
                                       .slope_share = 0.1,
                                       .curvature_share = 0.2,
                                       .approximate = std::nullopt,
                                       .keeps_rate = false})),
       false,
       false,
       true},
      {"lbfgs_searching",
       {"optim::lbfgs", "optim::scale_by_lbfgs"},
       lbfgs(LbfgsOptions{.memory = 4}),
       false,
       false,
       true},
      {"sophia",
       {"optim::sophia", "optim::scale_by_sophia", "optim::hutchinson_estimator_diag_hessian"},
       sophia(0.1, random::key(3), {.interval = 3, .weight_decay = 0.01}),
       false,
       false,
       true},
      {"sophia_free",
       {"optim::sophia"},
       sophia(0.01, random::key(3),
              {.b1 = 0.9, .b2 = 0.5, .epsilon = 0.1, .gamma = 1, .limit = std::nullopt, .interval = 1}),
       false,
       false,
       true},
  };
}

}  // namespace lockstep::tests::optax
