#include <cmath>
#include <utility>

#include <lockstep/optim_contrib/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"
#include "engine/optim_contrib/rate_free/distance_estimate.h"

namespace lockstep::optim {

GradientTransformation dadapt_adamw(LearningRate rate, DadaptOptions options) {
  check_moments("dadapt_adamw", options.b1, options.b2, options.epsilon);
  check_positive("dadapt_adamw", "first_estimate", options.first_estimate);
  check_not_negative("dadapt_adamw", "weight_decay", options.weight_decay);
  auto update = [o = options, rate = std::move(rate)](const Tree& gradients, const Tree& state, const Tree& params) {
    const Array before = state.at("count").array(), count = before + 1;
    const Array old = state.at("estimate").array();
    const double b3 = std::sqrt(o.b2);
    const Array step = corrected_step(rate, before, o.b1, o.b2, old);
    const auto over_root = [&](const Array& x, const Array& v) { return x / (sqrt(v) + o.epsilon); };
    const Tree g = widened(gradients);
    const Array agreement = inner_product(g, map_pairs(over_root, state.at("sum"), state.at("nu")));
    const auto mixed = [&](double share) {
      return
          [&, share](const Array& m, const Array& x) { return decaying(share * m + (1.0 - share) * times(step, x)); };
    };
    Tree mu = map_pairs(mixed(o.b1), state.at("mu"), g);
    Tree nu = next_square_averages(o.b2, state.at("nu"), g);
    Tree sums = map_pairs(mixed(b3), state.at("sum"), g);
    const Array size = sum_over_leaves(map([](const Array& s) { return abs(s); }, sums));
    const Array numerator = b3 * state.at("numerator").array() + (1.0 - b3) * step * agreement;
    const Array found = numerator / where(size == 0, 1.0, (1.0 - b3) * size);
    const Array estimate = maximum(old, where(size == 0, old, found));
    const auto moved = [&](const Array& m, const Array& v, const Array& p) {
      if (o.weight_decay == 0) return -over_root(m, v);
      return -o.weight_decay * times(step, convert(p, m.dtype())) - over_root(m, v);
    };
    Tree updates = together(moved, mu, nu, params);
    return std::pair(std::move(updates), Tree::dict({{"count", Tree(count)},
                                                     {"mu", std::move(mu)},
                                                     {"nu", std::move(nu)},
                                                     {"sum", std::move(sums)},
                                                     {"estimate", Tree(estimate)},
                                                     {"numerator", Tree(numerator)}}));
  };
  return {
      [o = options](const Tree& params) { return first_distance_estimate("dadapt_adamw", params, o.first_estimate); },
      update};
}

}  // namespace lockstep::optim
