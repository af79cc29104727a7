#include "engine/optim/adam_family.h"

#include <algorithm>

#include <lockstep/optimizers.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"

namespace lockstep::optim {
namespace {

/// m^ / (sqrt(v^) + epsilon), leaf by leaf, of averages m whose correction stands for itself.
Tree direction(const Tree& mu, const Array& mu_scale, const Tree& nu, const Array& nu_scale, double epsilon) {
  return map_pairs(
      [&](const Array& m, const Array& v) { return times(mu_scale, m) / (sqrt(times(nu_scale, v)) + epsilon); }, mu,
      nu);
}

Array one() { return full({}, 1.0, float64); }

}  // namespace

Tree moments_state(const Array& count, Tree mu, Tree nu) {
  return Tree::dict({{"count", Tree(count)}, {"mu", std::move(mu)}, {"nu", std::move(nu)}});
}

void check_moments(std::string_view function, double b1, double b2, double epsilon) {
  check_share(function, "b1", b1);
  check_share(function, "b2", b2);
  check_not_negative(function, "epsilon", epsilon);
}

Tree first_moments(const Tree& params) { return moments_state(first_count(), zeros_of(params), real_slots_of(params)); }

Tree looking_ahead(double b1, const Array& count, const Tree& mu, const Tree& gradients) {
  const Array ahead = b1 * correction(b1, count + 1), now = (1.0 - b1) * correction(b1, count);
  return map_pairs([&](const Array& m, const Array& g) { return times(ahead, m) + times(now, wide(g)); }, mu,
                   gradients);
}

GradientTransformation with_decay(GradientTransformation rule, double weight_decay, LearningRate rate) {
  if (weight_decay == 0) return chain(std::move(rule), scale_by_learning_rate(std::move(rate)));
  return chain(std::move(rule), add_decayed_weights(weight_decay), scale_by_learning_rate(std::move(rate)));
}

GradientTransformation scale_by_nadam(double b1, double b2, double epsilon) {
  check_moments("nadam", b1, b2, epsilon);
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    Tree mu = next_averages(b1, state.at("mu"), gradients);
    Tree nu = next_square_averages(b2, state.at("nu"), gradients);
    Tree updates = direction(looking_ahead(b1, count, mu, gradients), one(), nu, correction(b2, count), epsilon);
    return std::pair(std::move(updates), moments_state(count, std::move(mu), std::move(nu)));
  };
  return {first_moments, update};
}

GradientTransformation nadam(LearningRate rate, double b1, double b2, double epsilon) {
  return with_decay(scale_by_nadam(b1, b2, epsilon), 0, std::move(rate));
}

GradientTransformation nadamw(LearningRate rate, double b1, double b2, double epsilon, double weight_decay) {
  return with_decay(scale_by_nadam(b1, b2, epsilon), weight_decay, std::move(rate));
}

GradientTransformation scale_by_adamax(double b1, double b2, double epsilon) {
  check_moments("adamax", b1, b2, epsilon);
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    Tree mu = next_averages(b1, state.at("mu"), gradients);
    const auto larger = [&](const Array& n, const Array& g) {
      return decaying(maximum(abs(wide(g)) + epsilon, b2 * wide(n)), Sign::positive);
    };
    Tree nu = map_pairs(larger, state.at("nu"), gradients);
    const Array scale = correction(b1, count);
    Tree updates = map_pairs([&](const Array& m, const Array& n) { return times(scale, m) / n; }, mu, nu);
    return std::pair(std::move(updates), moments_state(count, std::move(mu), std::move(nu)));
  };
  return {first_moments, update};
}

GradientTransformation adamax(LearningRate rate, double b1, double b2, double epsilon) {
  return with_decay(scale_by_adamax(b1, b2, epsilon), 0, std::move(rate));
}

GradientTransformation adamaxw(LearningRate rate, double b1, double b2, double epsilon, double weight_decay) {
  return with_decay(scale_by_adamax(b1, b2, epsilon), weight_decay, std::move(rate));
}

GradientTransformation scale_by_amsgrad(double b1, double b2, double epsilon) {
  check_moments("amsgrad", b1, b2, epsilon);
  auto init = [](const Tree& params) { return first_moments(params).with("nu_max", real_slots_of(params)); };
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    Tree mu = next_averages(b1, state.at("mu"), gradients);
    Tree nu = next_square_averages(b2, state.at("nu"), gradients);
    const Array scale = correction(b2, count);
    Tree largest =
        map_pairs([&](const Array& n, const Array& v) { return maximum(n, times(scale, v)); }, state.at("nu_max"), nu);
    Tree updates = direction(mu, correction(b1, count), largest, one(), epsilon);
    return std::pair(std::move(updates),
                     moments_state(count, std::move(mu), std::move(nu)).with("nu_max", std::move(largest)));
  };
  return {init, update};
}

GradientTransformation amsgrad(LearningRate rate, double b1, double b2, double epsilon) {
  return with_decay(scale_by_amsgrad(b1, b2, epsilon), 0, std::move(rate));
}

GradientTransformation scale_by_belief(double b1, double b2, double epsilon, double epsilon_root) {
  check_moments("adabelief", b1, b2, epsilon);
  check_not_negative("adabelief", "epsilon_root", epsilon_root);
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    Tree mu = next_averages(b1, state.at("mu"), gradients);
    const auto surprise = [&](const Array& s, const Array& g, const Array& m) {
      const Array mixed = b2 * wide(s) + (1.0 - b2) * magnitude_squared(wide(g) - m);
      return decaying(mixed + epsilon_root, Sign::positive);
    };
    Tree nu = together(surprise, state.at("nu"), gradients, mu);
    Tree updates = direction(mu, correction(b1, count), nu, correction(b2, count), epsilon);
    return std::pair(std::move(updates), moments_state(count, std::move(mu), std::move(nu)));
  };
  return {first_moments, update};
}

GradientTransformation adabelief(LearningRate rate, double b1, double b2, double epsilon, double epsilon_root) {
  return with_decay(scale_by_belief(b1, b2, epsilon, epsilon_root), 0, std::move(rate));
}

GradientTransformation scale_by_radam(double b1, double b2, double epsilon, double threshold) {
  check_moments("radam", b1, b2, epsilon);
  check_not_negative("radam", "threshold", threshold);
  const double limit = 2.0 / (1.0 - b2) - 1.0;
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    Tree mu = next_averages(b1, state.at("mu"), gradients);
    Tree nu = next_square_averages(b2, state.at("nu"), gradients);
    const Array t = convert(count, float64);
    const Array power = pow(full({}, b2, float64), t);
    const Array length = limit - 2.0 * t * power / (1.0 - power);
    const Array is_long = length >= threshold;
    // Below 4 the root would be that of a negative number; nothing of it is taken.
    const Array held = maximum(length, 4.0);
    const Array ratio = sqrt((held - 4.0) * (held - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * held));
    const Array mu_scale = correction(b1, count), nu_scale = correction(b2, count);
    const auto rectified = [&](const Array& m, const Array& v) {
      const Array m_hat = times(mu_scale, m);
      return where(is_long, times(ratio, m_hat) / (sqrt(times(nu_scale, v)) + epsilon), m_hat);
    };
    Tree updates = map_pairs(rectified, mu, nu);
    return std::pair(std::move(updates), moments_state(count, std::move(mu), std::move(nu)));
  };
  return {first_moments, update};
}

GradientTransformation radam(LearningRate rate, double b1, double b2, double epsilon, double threshold) {
  return with_decay(scale_by_radam(b1, b2, epsilon, threshold), 0, std::move(rate));
}

GradientTransformation scale_by_yogi(double b1, double b2, double epsilon, double initial) {
  check_moments("yogi", b1, b2, epsilon);
  check_not_negative("yogi", "initial", initial);
  auto init = [initial](const Tree& params) {
    Tree mu = map([initial](const Array& p) { return full(p.shape(), initial, wide(p).dtype()); }, params);
    return moments_state(first_count(), std::move(mu), real_slots_of(params, initial));
  };
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    Tree mu = next_averages(b1, state.at("mu"), gradients);
    const auto next = [&](const Array& v, const Array& g) {
      const Array square = magnitude_squared(wide(g));
      return decaying(v - (1.0 - b2) * sign(v - square) * square, Sign::positive);
    };
    Tree nu = map_pairs(next, state.at("nu"), gradients);
    Tree updates = direction(mu, correction(b1, count), nu, correction(b2, count), epsilon);
    return std::pair(std::move(updates), moments_state(count, std::move(mu), std::move(nu)));
  };
  return {init, update};
}

GradientTransformation yogi(LearningRate rate, double b1, double b2, double epsilon) {
  return with_decay(scale_by_yogi(b1, b2, epsilon), 0, std::move(rate));
}

GradientTransformation scale_by_ademamix(AdemamixOptions options) {
  check_moments("ademamix", options.b1, options.b2, options.epsilon);
  auto init = [](const Tree& params) { return first_moments(params).with("slow", zeros_of(params)); };
  auto update = [o = std::move(options)](const Tree& gradients, const Tree& state, const Tree&) {
    const Array before = state.at("count").array(), count = before + 1;
    const Array b3 = o.b3.schedule()(before), alpha = o.alpha.schedule()(before);
    Tree mu = next_averages(o.b1, state.at("mu"), gradients);
    Tree nu = next_square_averages(o.b2, state.at("nu"), gradients);
    const Array new_share = 1.0 - b3;
    const auto mixed = [&](const Array& s, const Array& g) {
      return decaying(times(b3, wide(s)) + times(new_share, wide(g)));
    };
    Tree slow = map_pairs(mixed, state.at("slow"), gradients);
    const Array mu_scale = correction(o.b1, count), nu_scale = correction(o.b2, count);
    const auto both = [&](const Array& m, const Array& s, const Array& v) {
      return (times(mu_scale, m) + times(alpha, s)) / (sqrt(times(nu_scale, v)) + o.epsilon);
    };
    Tree updates = together(both, mu, slow, nu);
    return std::pair(std::move(updates),
                     moments_state(count, std::move(mu), std::move(nu)).with("slow", std::move(slow)));
  };
  return {init, update};
}

GradientTransformation ademamix(LearningRate rate, AdemamixOptions options) {
  const double weight_decay = options.weight_decay;
  return with_decay(scale_by_ademamix(std::move(options)), weight_decay, std::move(rate));
}

GradientTransformation scale_by_adan(AdanOptions options) {
  check_moments("adan", options.b1, options.b2, options.epsilon);
  check_share("adan", "b3", options.b3);
  check_not_negative("adan", "epsilon_root", options.epsilon_root);
  auto init = [](const Tree& params) {
    return first_moments(params).with("difference", zeros_of(params)).with("gradient", zeros_of(params));
  };
  auto update = [o = options](const Tree& gradients, const Tree& state, const Tree&) {
    const Array before = state.at("count").array(), count = before + 1;
    Tree g = widened(gradients);
    const Tree change =
        map_pairs([&](const Array& now, const Array& last) { return where(before == 0, 0.0, now - last); }, g,
                  state.at("gradient"));
    Tree mu = next_averages(o.b1, state.at("mu"), g);
    Tree difference = next_averages(o.b2, state.at("difference"), change);
    const Tree ahead = map_pairs([&](const Array& now, const Array& d) { return now + (1.0 - o.b2) * d; }, g, change);
    Tree nu = next_square_averages(o.b3, state.at("nu"), ahead);
    const Array mu_scale = correction(o.b1, count), nu_scale = correction(o.b3, count);
    const Array difference_scale = (1.0 - o.b2) * correction(o.b2, count);
    const auto all = [&](const Array& m, const Array& d, const Array& n) {
      return (times(mu_scale, m) + times(difference_scale, d)) /
             (sqrt(times(nu_scale, n) + o.epsilon_root) + o.epsilon);
    };
    Tree updates = together(all, mu, difference, nu);
    Tree next = moments_state(count, std::move(mu), std::move(nu))
                    .with("difference", std::move(difference))
                    .with("gradient", std::move(g));
    return std::pair(std::move(updates), std::move(next));
  };
  return {init, update};
}

GradientTransformation adan(LearningRate rate, AdanOptions options) {
  return with_decay(scale_by_adan(options), options.weight_decay, std::move(rate));
}

}  // namespace lockstep::optim
