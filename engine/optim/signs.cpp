#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

// Optimizers that see signs of gradients alone.
namespace lockstep::optim {
namespace {

void check_rprop_arguments(double first_step, const RpropOptions& o) {
  check_positive("rprop", "first_step", first_step);
  if (o.shrink > 0 && o.shrink < 1 && o.grow > 1 && std::isfinite(o.grow) && o.least > 0 && o.least <= o.largest)
    return;
  throw ValueError(
      fmt::format("[rprop] shrink is {}, grow {}, least {}, largest {}; they must be 0 < shrink < 1 < grow and 0 < "
                  "least <= largest",
                  o.shrink, o.grow, o.least, o.largest));
}

Array sign_of(const Array& g) {
  if (!is_complex(g.dtype())) return sign(g);
  const Array size = abs(g);
  return g / where(size == 0, ones_like(size), size);
}

}  // namespace

GradientTransformation scale_by_sign() {
  return leafwise([](const Array& u, const Array&) { return sign_of(u); });
}

GradientTransformation sign_sgd(LearningRate rate) { return with_decay(scale_by_sign(), 0, std::move(rate)); }

GradientTransformation signum(LearningRate rate, double momentum) {
  check_share("signum", "momentum", momentum);
  return chain(ema(momentum, false), scale_by_sign(), scale_by_learning_rate(std::move(rate)));
}

GradientTransformation rprop(double first_step, RpropOptions options) {
  check_rprop_arguments(first_step, options);
  auto init = [first_step](const Tree& params) {
    check_real("rprop", params);
    return Tree::dict({{"steps", real_slots_of(params, first_step)}, {"updates", zeros_of(params)}});
  };
  auto update = [o = options](const Tree& gradients, const Tree& state, const Tree&) {
    const Tree agreement =
        map_pairs([](const Array& g, const Array& last) { return wide(g) * last; }, gradients, state.at("updates"));
    const auto resized = [&](const Array& step, const Array& agrees) {
      const Array factor = where(agrees > 0, full({}, o.grow, step.dtype()), full({}, o.shrink, step.dtype()));
      return where(agrees == 0, step, clip(step * factor, o.least, o.largest));
    };
    Tree steps = map_pairs(resized, state.at("steps"), agreement);
    const auto moved = [](const Array& g, const Array& agrees, const Array& step) {
      return where(agrees < 0, 0.0, step * sign(wide(g)));
    };
    Tree updates = together(moved, gradients, agreement, steps);
    Tree down = map([](const Array& u) { return -u; }, updates);
    return std::pair(std::move(down), Tree::dict({{"steps", std::move(steps)}, {"updates", std::move(updates)}}));
  };
  return {init, update};
}

}  // namespace lockstep::optim
