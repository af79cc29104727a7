#include <utility>

#include <lockstep/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

namespace lockstep::optim {
GradientTransformation scale_by_optimistic_gradient(double alpha, double beta) {
  check_not_negative("optimistic_gradient_descent", "alpha", alpha);
  check_not_negative("optimistic_gradient_descent", "beta", beta);
  auto init = [](const Tree& params) {
    return Tree::dict({{"count", Tree(first_count())}, {"gradient", zeros_of(params)}});
  };
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array();
    Tree g = widened(gradients);
    const auto ahead = [&](const Array& now, const Array& last) {
      return (alpha + beta) * now - beta * where(count == 0, now, last);
    };
    Tree updates = map_pairs(ahead, g, state.at("gradient"));
    return std::pair(std::move(updates), Tree::dict({{"count", Tree(count + 1)}, {"gradient", std::move(g)}}));
  };
  return {init, update};
}

GradientTransformation optimistic_gradient_descent(LearningRate rate, double alpha, double beta) {
  return chain(scale_by_optimistic_gradient(alpha, beta), scale_by_learning_rate(std::move(rate)));
}

GradientTransformation optimistic_adam(LearningRate rate, OptimisticAdamOptions options) {
  const auto rule = options.nesterov ? scale_by_nadam : scale_by_adam;
  return chain(rule(options.b1, options.b2, options.epsilon), scale_by_optimistic_gradient(options.alpha, options.beta),
               scale_by_learning_rate(std::move(rate)));
}

GradientTransformation noisy_sgd(LearningRate rate, double eta, double gamma, const Array& key) {
  return chain(add_noise(eta, gamma, key), scale_by_learning_rate(std::move(rate)));
}

GradientTransformation scale_by_polyak(PolyakOptions options) {
  check_positive("polyak_sgd", "max_rate", options.max_rate);
  check_not_negative("polyak_sgd", "epsilon", options.epsilon);
  auto rule = [o = options](const Tree& updates, const Tree& state, const Tree&, const KnownLoss& loss) {
    const Array size = squared_norm(updates) + o.epsilon;
    Array gap = convert(loss.value, size.dtype()) - o.least_loss;
    if (o.positive) gap = maximum(gap, 0.0);
    const Array is_flat = size <= 0x1p-52;
    const Array rate = where(is_flat, 0.0, minimum(gap / where(is_flat, 1.0, size), o.max_rate));
    return std::pair(map([&](const Array& u) { return times(rate, wide(u)); }, updates), state);
  };
  return needing_loss(no_state, rule);
}

GradientTransformation polyak_sgd(PolyakOptions options, LearningRate scaling) {
  return chain(sgd(std::move(scaling)), scale_by_polyak(options));
}

}  // namespace lockstep::optim
