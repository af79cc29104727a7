#include <utility>

#include <lockstep/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"

// Kin of Adam that divide by averages from before the gradient, or do not average it.
namespace lockstep::optim {

GradientTransformation scale_by_acprop(double b1, double b2, double epsilon, double epsilon_root) {
  check_moments("acprop", b1, b2, epsilon);
  check_not_negative("acprop", "epsilon_root", epsilon_root);
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Array before = state.at("count").array();
    const Array is_first = before == 0;
    const Array scale = correction(b2, maximum(before, 1));
    const auto centered = [&](const Array& v, const Array& g, const Array& m) {
      const Array mixed = b2 * wide(v) + (1.0 - b2) * magnitude_squared(wide(g) - m);
      return decaying(mixed + epsilon_root, Sign::positive);
    };
    Tree nu = together(centered, state.at("nu"), gradients, state.at("mu"));
    const auto direction = [&](const Array& g, const Array& v) {
      return wide(g) / (sqrt(where(is_first, 1.0, times(scale, v))) + epsilon);
    };
    Tree updates = map_pairs(direction, gradients, state.at("nu"));
    Tree mu = next_averages(b1, state.at("mu"), gradients);
    return std::pair(std::move(updates), moments_state(before + 1, std::move(mu), std::move(nu)));
  };
  return {first_moments, update};
}

GradientTransformation acprop(LearningRate rate, double b1, double b2, double epsilon, double epsilon_root,
                              double weight_decay) {
  return with_decay(scale_by_acprop(b1, b2, epsilon, epsilon_root), weight_decay, std::move(rate));
}

GradientTransformation scale_by_adopt(AdoptOptions options) {
  check_moments("adopt", options.b1, options.b2, options.epsilon);
  auto init = [](const Tree& params) {
    check_real("adopt", params);
    return first_moments(params);
  };
  auto update = [o = options](const Tree& gradients, const Tree& state, const Tree&) {
    const Array before = state.at("count").array();
    const Array is_first = before == 0;
    const Array limit = sqrt(sqrt(convert(before, float64)));
    const auto direction = [&](const Array& g, const Array& v) {
      const Array d = wide(g) / maximum(sqrt(v), o.epsilon);
      if (!o.clips) return d;
      const Array most = convert(limit, d.dtype());
      return minimum(maximum(d, -most), most);
    };
    const Tree directions = map_pairs(direction, gradients, state.at("nu"));
    const auto mixed = [&](const Array& m, const Array& d) {
      return decaying(where(is_first, m, o.b1 * m + (1.0 - o.b1) * d));
    };
    Tree mu = map_pairs(mixed, state.at("mu"), directions);
    const auto squares = [&](const Array& v, const Array& g) {
      const Array square = magnitude_squared(wide(g));
      return decaying(where(is_first, square, o.b2 * v + (1.0 - o.b2) * square), Sign::positive);
    };
    Tree nu = map_pairs(squares, state.at("nu"), gradients);
    Tree updates = o.nesterov ? map_pairs(mixed, mu, directions) : mu;
    return std::pair(std::move(updates), moments_state(before + 1, std::move(mu), std::move(nu)));
  };
  return {init, update};
}

GradientTransformation adopt(LearningRate rate, AdoptOptions options) {
  return with_decay(scale_by_adopt(options), 0, std::move(rate));
}

GradientTransformation scale_by_simplified_ademamix(SimplifiedAdemamixOptions options) {
  check_moments("simplified_ademamix", options.b1, options.b2, options.epsilon);
  check_not_negative("simplified_ademamix", "epsilon_root", options.epsilon_root);
  auto update = [o = std::move(options)](const Tree& gradients, const Tree& state, const Tree&) {
    const Array before = state.at("count").array(), count = before + 1;
    const Array alpha = o.alpha.schedule()(before), nu_scale = correction(o.b2, count);
    Tree mu = map_pairs([&](const Array& m, const Array& g) { return decaying(o.b1 * m + wide(g)); }, state.at("mu"),
                        gradients);
    Tree nu = next_square_averages(o.b2, state.at("nu"), gradients);
    const auto both = [&](const Array& m, const Array& g, const Array& v) {
      return (m + times(alpha, wide(g))) / (sqrt(times(nu_scale, v) + o.epsilon_root) + o.epsilon);
    };
    Tree updates = together(both, mu, gradients, nu);
    return std::pair(std::move(updates), moments_state(count, std::move(mu), std::move(nu)));
  };
  return {first_moments, update};
}

GradientTransformation simplified_ademamix(LearningRate rate, SimplifiedAdemamixOptions options) {
  const double weight_decay = options.weight_decay;
  return with_decay(scale_by_simplified_ademamix(std::move(options)), weight_decay, std::move(rate));
}

}  // namespace lockstep::optim
