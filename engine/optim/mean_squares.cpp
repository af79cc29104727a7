#include <utility>

#include <lockstep/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"

// Optimizers that divide by the root of a sum or an average of squares.
namespace lockstep::optim {
namespace {

void check_rms_options(const RmsOptions& options) {
  check_share("rmsprop", "decay", options.decay);
  check_not_negative("rmsprop", "epsilon", options.epsilon);
  check_not_negative("rmsprop", "initial", options.initial);
}

struct Moments {
  Tree mean, variance;  ///< The next slots.
  Tree corrected;       ///< The variance that gradients are divided by.
};

/// The next average of g and the average of |g - mean|^2, by steps that subtract no squares (West 1979): a variance as
/// a difference of averages is negative by rounding where it is small. `scale` is 1 / (1 - decay^t), or 1.
Moments next_moments(const RmsOptions& o, const Array& scale, const Tree& state, const Tree& gradients) {
  const Array share = (1 - o.decay) * scale;
  const auto next_mean = [&](const Array& m, const Array& g) { return decaying(m + times(share, wide(g) - m)); };
  const auto next_variance = [&](const Array& v, const Array& g, const Array& m) {
    return decaying(times(1 - share, v + times(share, magnitude_squared(wide(g) - m))), Sign::positive);
  };
  const Tree before = widened(state.at("mu"));
  Moments next{
      map_pairs(next_mean, before, gradients), together(next_variance, widened(state.at("nu")), gradients, before), {}};
  const Array initial = o.bias_correction ? o.initial * (scale - 1) : full({}, 0.0, float64);
  next.corrected = o.initial == 0 ? next.variance
                                  : map([&](const Array& v) { return v + convert(initial, v.dtype()); }, next.variance);
  return next;
}

}  // namespace

GradientTransformation scale_by_rms(RmsOptions options) {
  check_rms_options(options);
  auto init = [o = options](const Tree& params) {
    // Corrected steps begin with the first gradient; what they started from is added where they are divided by.
    const double initial = o.centered && o.bias_correction ? 0 : o.initial;
    Tree state = Tree::dict({{"nu", real_slots_of(params, initial)}});
    if (o.centered) state = state.with("mu", zeros_of(params));
    if (o.bias_correction) state = state.with("count", Tree(first_count()));
    return state;
  };
  auto update = [o = options](const Tree& gradients, const Tree& state, const Tree&) {
    Tree next = Tree::dict({});
    Array scale = full({}, 1.0, float64);
    if (o.bias_correction) {
      const Array count = state.at("count").array() + 1;
      scale = correction(o.decay, count);
      next = Tree::dict({{"count", Tree(count)}});
    }
    const auto divided = [&](const Array& g, const Array& mean_square) {
      return o.epsilon_in_root ? g * rsqrt(mean_square + o.epsilon) : g / (sqrt(mean_square) + o.epsilon);
    };
    if (!o.centered) {
      Tree nu = next_square_averages(o.decay, state.at("nu"), gradients);
      Tree updates =
          map_pairs([&](const Array& g, const Array& n) { return divided(wide(g), times(scale, n)); }, gradients, nu);
      return std::pair(std::move(updates), next.with("nu", std::move(nu)));
    }
    Moments moments = next_moments(o, scale, state, gradients);
    Tree updates =
        map_pairs([&](const Array& g, const Array& v) { return divided(wide(g), v); }, gradients, moments.corrected);
    return std::pair(std::move(updates),
                     next.with("nu", std::move(moments.variance)).with("mu", std::move(moments.mean)));
  };
  return {init, update};
}

GradientTransformation rmsprop(LearningRate rate, RmsOptions options, double momentum, bool nesterov) {
  if (momentum == 0) return chain(scale_by_rms(options), scale_by_learning_rate(std::move(rate)));
  return chain(scale_by_rms(options), scale_by_learning_rate(std::move(rate)), trace(momentum, nesterov));
}

GradientTransformation scale_by_rss(double initial, double epsilon) {
  check_not_negative("adagrad", "initial", initial);
  check_not_negative("adagrad", "epsilon", epsilon);
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    Tree sums = map_pairs([](const Array& s, const Array& g) { return wide(s) + magnitude_squared(wide(g)); }, state,
                          gradients);
    Tree updates =
        map_pairs([&](const Array& g, const Array& s) { return wide(g) * where(s > 0, rsqrt(s + epsilon), 0.0); },
                  gradients, sums);
    return std::pair(std::move(updates), std::move(sums));
  };
  return {[initial](const Tree& params) { return real_slots_of(params, initial); }, update};
}

GradientTransformation adagrad(LearningRate rate, double initial, double epsilon) {
  return with_decay(scale_by_rss(initial, epsilon), 0, std::move(rate));
}

GradientTransformation scale_by_adadelta(double decay, double epsilon) {
  check_share("adadelta", "decay", decay);
  check_not_negative("adadelta", "epsilon", epsilon);
  auto init = [](const Tree& params) {
    return Tree::dict({{"squares", real_slots_of(params)}, {"moves", real_slots_of(params)}});
  };
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    Tree squares = next_square_averages(decay, state.at("squares"), gradients);
    const auto move = [&](const Array& g, const Array& square, const Array& moves) {
      return wide(g) * (sqrt(wide(moves) + epsilon) / sqrt(square + epsilon));
    };
    Tree updates = together(move, gradients, squares, state.at("moves"));
    Tree moves = next_square_averages(decay, state.at("moves"), updates);
    return std::pair(std::move(updates), Tree::dict({{"squares", std::move(squares)}, {"moves", std::move(moves)}}));
  };
  return {init, update};
}

GradientTransformation adadelta(LearningRate rate, double decay, double epsilon) {
  return with_decay(scale_by_adadelta(decay, epsilon), 0, std::move(rate));
}

}  // namespace lockstep::optim
