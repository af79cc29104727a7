#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

template class lockstep::detail::OutOfLine<std::vector<lockstep::optim::Selection>>;
template class lockstep::Named<lockstep::optim::GradientTransformation>;

namespace lockstep::optim {
namespace {

/// g times its conjugate, in g's dtype.
Array squared_of(const Array& g) { return is_complex(g.dtype()) ? g * conj(g) : g * g; }

}  // namespace

KnownLoss::KnownLoss() = default;
KnownLoss::KnownLoss(const KnownLoss& other) = default;
KnownLoss::KnownLoss(KnownLoss&& other) noexcept = default;
KnownLoss& KnownLoss::operator=(const KnownLoss& other) = default;
KnownLoss& KnownLoss::operator=(KnownLoss&& other) noexcept = default;
KnownLoss::~KnownLoss() = default;
KnownLoss::KnownLoss(Array at_params) : value(std::move(at_params)) {}
KnownLoss::KnownLoss(Array at_params, ValueFunction of_params)
    : value(std::move(at_params)), function(std::move(of_params)) {}

LearningRate::LearningRate(const LearningRate& other) = default;
LearningRate::LearningRate(LearningRate&& other) noexcept = default;
LearningRate& LearningRate::operator=(const LearningRate& other) = default;
LearningRate& LearningRate::operator=(LearningRate&& other) noexcept = default;
LearningRate::~LearningRate() = default;
LearningRate::LearningRate(double value) : is_number_(true) {
  if (!std::isfinite(value) || value < 0) {
    throw ValueError(fmt::format("[learning rate] {} was given; it must be finite and not negative", value));
  }
  schedule_ = schedules::constant(value);
}

LearningRate::LearningRate(Schedule schedule) : schedule_(std::move(schedule)) {}

GradientTransformation scale_by_learning_rate(LearningRate rate) {
  auto update = [rate](const Tree& updates, const Tree& state, const Tree&) {
    const Array count = state.at("count").array();
    const Array factor = -rate.schedule()(count);
    Tree scaled = map(
        [&](const Array& u) {
          const Array x = wide(u);
          return x * convert(factor, x.dtype());
        },
        updates);
    return std::pair(std::move(scaled), Tree::dict({{"count", Tree(count + 1)}}));
  };
  return {.init =
              [](const Tree&) {
                return Tree::dict({{"count", Tree(first_count())}});
              },
          .update = update,
          .linear = true};
}

GradientTransformation scale(double factor) {
  if (!std::isfinite(factor)) throw ValueError(fmt::format("[scale] the factor is {}; it must be finite", factor));
  GradientTransformation all = leafwise([factor](const Array& u, const Array&) { return factor * u; });
  all.linear = true;
  return all;
}

GradientTransformation trace(double decay, bool nesterov) {
  check_share("trace", "decay", decay);
  auto update = [decay, nesterov](const Tree& updates, const Tree& state, const Tree&) {
    Tree velocity =
        map_pairs([&](const Array& u, const Array& v) { return decaying(decay * wide(v) + wide(u)); }, updates, state);
    if (!nesterov) return std::pair(velocity, velocity);
    Tree ahead = map_pairs([&](const Array& u, const Array& v) { return wide(u) + decay * v; }, updates, velocity);
    return std::pair(std::move(ahead), std::move(velocity));
  };
  return {.init = zeros_of, .update = update, .linear = true};
}

GradientTransformation scale_by_adam(double b1, double b2, double epsilon) {
  check_share("adam", "b1", b1);
  check_share("adam", "b2", b2);
  check_not_negative("adam", "epsilon", epsilon);
  auto init = [](const Tree& params) {
    return Tree::dict({{"count", Tree(first_count())}, {"mu", zeros_of(params)}, {"nu", zeros_of(params)}});
  };
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const Tree updates = map([](const Array& g) { return wide(g); }, gradients);
    const Array count = state.at("count").array() + 1;
    Tree mu = map_pairs([&](const Array& g, const Array& m) { return decaying(b1 * wide(m) + (1.0 - b1) * g); },
                        updates, state.at("mu"));
    Tree nu =
        map_pairs([&](const Array& g,
                      const Array& n) { return decaying(b2 * wide(n) + (1.0 - b2) * squared_of(g), Sign::positive); },
                  updates, state.at("nu"));
    const Array mu_scale = correction(b1, count);
    const Array nu_scale = correction(b2, count);
    Tree direction = map_pairs(
        [&](const Array& m, const Array& n) {
          const Array m_hat = m * convert(mu_scale, m.dtype());
          const Array n_hat = n * convert(nu_scale, n.dtype());
          return m_hat / (sqrt(n_hat) + epsilon);
        },
        mu, nu);
    return std::pair(std::move(direction),
                     Tree::dict({{"count", Tree(count)}, {"mu", std::move(mu)}, {"nu", std::move(nu)}}));
  };
  return {init, update};
}

GradientTransformation add_decayed_weights(double decay) {
  check_not_negative("add_decayed_weights", "decay", decay);
  return leafwise([decay](const Array& u, const Array& p) { return u + decay * convert(p, u.dtype()); });
}

GradientTransformation add_decayed_weights(double decay, Mask mask) {
  return masked(add_decayed_weights(decay), std::move(mask));
}

GradientTransformation add_decayed_weights(Schedule decay) {
  auto update = [decay = std::move(decay)](const Tree& updates, const Tree& state, const Tree& params) {
    const Array count = state.at("count").array();
    const Array share = decay(count);
    Tree decayed =
        map_pairs([&](const Array& u, const Array& p) { return wide(u) + times(share, convert(p, wide(u).dtype())); },
                  updates, params);
    return std::pair(std::move(decayed), Tree::dict({{"count", Tree(count + 1)}}));
  };
  return {[](const Tree&) { return Tree::dict({{"count", Tree(first_count())}}); }, update};
}

GradientTransformation add_decayed_weights(Schedule decay, Mask mask) {
  return masked(add_decayed_weights(std::move(decay)), std::move(mask));
}

GradientTransformation clip_by_value(double limit) {
  if (!(limit > 0)) throw ValueError(fmt::format("[clip_by_value] the limit is {}; it must be above 0", limit));
  GradientTransformation rule = leafwise([limit](const Array& u, const Array&) { return clip(u, -limit, limit); });
  rule.init = [](const Tree& params) {
    check_real("clip_by_value", params);
    return Tree();
  };
  return rule;
}

GradientTransformation sgd(LearningRate rate, double momentum, bool nesterov) {
  if (momentum == 0.0) return scale_by_learning_rate(std::move(rate));
  return chain(trace(momentum, nesterov), scale_by_learning_rate(std::move(rate)));
}

GradientTransformation adam(LearningRate rate, double b1, double b2, double epsilon) {
  return chain(scale_by_adam(b1, b2, epsilon), scale_by_learning_rate(std::move(rate)));
}

GradientTransformation adamw(LearningRate rate, double b1, double b2, double epsilon, double weight_decay) {
  return chain(scale_by_adam(b1, b2, epsilon), add_decayed_weights(weight_decay),
               scale_by_learning_rate(std::move(rate)));
}

}  // namespace lockstep::optim
