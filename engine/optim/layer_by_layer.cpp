#include <utility>

#include <lockstep/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/scaled_norm.h"
#include "engine/optim/wrapping.h"

// Optimizers that compare a leaf's weights with its updates as a whole.
namespace lockstep::optim {
namespace {

GradientTransformation of_some(GradientTransformation transformation, const Mask& mask) {
  return mask ? masked(std::move(transformation), mask) : transformation;
}

}  // namespace

GradientTransformation scale_by_trust_ratio(TrustRatioOptions options) {
  check_not_negative("scale_by_trust_ratio", "min_norm", options.min_norm);
  check_not_negative("scale_by_trust_ratio", "coefficient", options.coefficient);
  check_not_negative("scale_by_trust_ratio", "epsilon", options.epsilon);
  return leafwise([o = options](const Array& u, const Array& p) {
    const Array of_params = maximum(leaf_norm(p), o.min_norm), of_updates = maximum(leaf_norm(u), o.min_norm);
    const Array one = ones_like(of_updates);
    const Array none = logical_or(of_params == 0, of_updates == 0);
    const Array ratio = o.coefficient * of_params / where(none, one, of_updates + o.epsilon);
    return times(where(none, one, ratio), u);
  });
}

GradientTransformation scale_by_param_block_norm(double min_scale) {
  check_not_negative("scale_by_param_block_norm", "min_scale", min_scale);
  return leafwise([min_scale](const Array& u, const Array& p) { return times(maximum(leaf_norm(p), min_scale), u); });
}

GradientTransformation scale_by_param_block_rms(double min_scale) {
  check_not_negative("scale_by_param_block_rms", "min_scale", min_scale);
  return leafwise([min_scale](const Array& u, const Array& p) { return times(maximum(leaf_rms(p), min_scale), u); });
}

GradientTransformation lamb(LearningRate rate, double b1, double b2, double epsilon, double weight_decay) {
  return chain(scale_by_adam(b1, b2, epsilon), add_decayed_weights(weight_decay), scale_by_trust_ratio(),
               scale_by_learning_rate(std::move(rate)));
}

GradientTransformation lars(LearningRate rate, LarsOptions options) {
  return chain(
      of_some(add_decayed_weights(options.weight_decay), options.decayed),
      of_some(scale_by_trust_ratio({.coefficient = options.coefficient, .epsilon = options.epsilon}), options.scaled),
      scale_by_learning_rate(std::move(rate)), trace(options.momentum, options.nesterov));
}

GradientTransformation fromage(LearningRate rate, double min_norm) {
  auto update = [rate](const Tree& updates, const Tree& state, const Tree& params) {
    const Array count = state.at("count").array();
    const Array by = rate.schedule()(count), shrink = 1.0 / sqrt(1.0 + by * by);
    const Array step = -by * shrink, loss = shrink - 1.0;
    Tree moved = map_pairs(
        [&](const Array& u, const Array& p) { return times(step, wide(u)) + times(loss, convert(p, wide(u).dtype())); },
        updates, params);
    return std::pair(std::move(moved), Tree::dict({{"count", Tree(count + 1)}}));
  };
  const auto init = [](const Tree&) { return Tree::dict({{"count", Tree(first_count())}}); };
  return chain(scale_by_trust_ratio({.min_norm = min_norm}), GradientTransformation{init, update});
}

GradientTransformation scale_by_novograd(double b1, double b2, double epsilon, double weight_decay) {
  check_moments("novograd", b1, b2, epsilon);
  check_not_negative("novograd", "weight_decay", weight_decay);
  auto init = [](const Tree& params) {
    // Squares of a leaf's norm, which float32 does not hold of large gradients.
    Tree norms = map([](const Array&) { return full({}, 0.0, float64); }, params);
    return Tree::dict({{"count", Tree(first_count())}, {"mu", zeros_of(params)}, {"nu", std::move(norms)}});
  };
  auto update = [=](const Tree& gradients, const Tree& state, const Tree& params) {
    const Array count = state.at("count").array() + 1;
    const auto next = [&](const Array& v, const Array& g) {
      const ScaledNorm norm = scaled_norm(g);
      const Array square = magnitude_squared(convert(norm.root, float64) * convert(norm.scale, float64));
      return where(count == 1, square, b2 * v + (1.0 - b2) * square);
    };
    Tree nu = map(next, state.at("nu"), gradients);  // a number for each leaf
    const auto moved = [&](const Array& m, const Array& g, const Array& p, const Array& v) {
      const Array u = wide(g) / (convert(sqrt(v), real(m).dtype()) + epsilon) + weight_decay * convert(p, m.dtype());
      return decaying(b1 * m + u);
    };
    Tree mu = together(moved, state.at("mu"), gradients, params, nu);
    Tree updates = mu;
    return std::pair(std::move(updates),
                     Tree::dict({{"count", Tree(count)}, {"mu", std::move(mu)}, {"nu", std::move(nu)}}));
  };
  return {init, update};
}

GradientTransformation novograd(LearningRate rate, double b1, double b2, double epsilon, double weight_decay) {
  return with_decay(scale_by_novograd(b1, b2, epsilon, weight_decay), 0, std::move(rate));
}

}  // namespace lockstep::optim
