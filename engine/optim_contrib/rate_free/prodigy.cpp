#include <cmath>
#include <utility>

#include <lockstep/optim_contrib/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"
#include "engine/optim_contrib/rate_free/distance_estimate.h"

namespace lockstep::optim {
namespace {

void check_prodigy_options(const ProdigyOptions& options) {
  check_moments("prodigy", options.b1, options.b2, options.epsilon);
  check_positive("prodigy", "first_estimate", options.first_estimate);
  check_positive("prodigy", "coefficient", options.coefficient);
  check_not_negative("prodigy", "weight_decay", options.weight_decay);
}

}  // namespace

GradientTransformation prodigy(LearningRate rate, ProdigyOptions options) {
  check_prodigy_options(options);
  auto update = [o = options, rate = std::move(rate)](const Tree& gradients, const Tree& state, const Tree& params) {
    const Array before = state.at("count").array(), count = before + 1;
    const Array old = state.at("estimate").array();
    const double b3 = std::sqrt(o.b2);
    const Array step = corrected_step(rate, before, o.b1, o.b2, old);
    const Tree scaled = map([&](const Array& g) { return times(old, wide(g)); }, gradients);
    Tree mu = next_averages(o.b1, state.at("mu"), scaled);
    Tree nu = next_square_averages(o.b2, state.at("nu"), scaled);
    const Array weight = (o.safeguard_warmup ? old : step) / o.first_estimate;
    Tree sums = map_pairs([&](const Array& s, const Array& g) { return decaying(b3 * s + times(weight, g)); },
                          state.at("sum"), scaled);
    const auto agreement = [](const Array& g, const Array& start, const Array& p) {
      return wide(g) * (start - convert(p, start.dtype()));
    };
    const Array inner = sum_over_leaves(together(agreement, gradients, state.at("start"), params));
    const Array numerator = b3 * state.at("numerator").array() + old / o.first_estimate * step * inner;
    const Array size = sum_over_leaves(map([](const Array& s) { return abs(s); }, sums));
    const Array found = o.coefficient * numerator / where(size == 0, 1.0, size);
    const Array estimate = maximum(old, where(size == 0, old, found));
    const auto moved = [&](const Array& m, const Array& v, const Array& p) {
      const Array direction = times(step, m) / (sqrt(v) + times(estimate, full({}, o.epsilon, v.dtype())));
      if (o.weight_decay == 0) return -direction;
      return -o.weight_decay * times(step, convert(p, m.dtype())) - direction;
    };
    Tree updates = together(moved, mu, nu, params);
    Tree next = Tree::dict({{"count", Tree(count)},
                            {"mu", std::move(mu)},
                            {"nu", std::move(nu)},
                            {"sum", std::move(sums)},
                            {"start", state.at("start")},
                            {"estimate", Tree(estimate)},
                            {"numerator", Tree(numerator)}});
    return std::pair(std::move(updates), std::move(next));
  };
  return {[o = options](const Tree& params) {
            return first_distance_estimate("prodigy", params, o.first_estimate).with("start", widened(params));
          },
          update};
}

}  // namespace lockstep::optim
