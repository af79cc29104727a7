#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/optimizers.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"

namespace lockstep::optim {
namespace {

void check_ftrl_options(const LearningRate& rate, const FtrlOptions& options) {
  if (!(options.power <= 0) || !std::isfinite(options.power)) {
    throw ValueError(fmt::format("[ftrl] power is {}; it must be finite and at most 0", options.power));
  }
  if (rate.is_number() && rate.schedule()(full({}, 0, int32)).item<double>() == 0) {
    throw ValueError("[ftrl] the learning rate is 0, by which ftrl divides; give one above 0");
  }
  check_not_negative("ftrl", "initial", options.initial);
  check_not_negative("ftrl", "l1", options.l1);
  check_not_negative("ftrl", "l2", options.l2);
  check_not_negative("ftrl", "l2_shrinkage", options.l2_shrinkage);
  check_not_negative("ftrl", "beta", options.beta);
}

}  // namespace

GradientTransformation ftrl(LearningRate rate, FtrlOptions options) {
  check_ftrl_options(rate, options);
  auto init = [o = options](const Tree& params) {
    check_real("ftrl", params);
    return Tree::dict(
        {{"count", Tree(first_count())}, {"squares", real_slots_of(params, o.initial)}, {"linear", zeros_of(params)}});
  };
  auto update = [o = options, rate = std::move(rate)](const Tree& gradients, const Tree& state, const Tree& params) {
    const Array count = state.at("count").array();
    const Array now = rate.schedule()(count), inverse = 1.0 / now;
    const Array l2 = 2.0 * (o.l2 + o.beta / (2.0 * now));
    const auto powered = [&](const Array& n) {
      return o.power == -0.5 ? sqrt(n) : pow(n, full({}, -o.power, n.dtype()));
    };
    Tree squares = map_pairs([](const Array& n, const Array& g) { return n + magnitude_squared(wide(g)); },
                             state.at("squares"), gradients);
    const auto pulled = [&](const Array& z, const Array& g, const Array& next, const Array& last, const Array& p) {
      const Array x = convert(p, z.dtype());
      return z + (wide(g) + 2.0 * o.l2_shrinkage * x - times(inverse, powered(next) - powered(last)) * x);
    };
    Tree linear = together(pulled, state.at("linear"), gradients, squares, state.at("squares"), params);
    const auto lead = [&](const Array& z, const Array& n, const Array& p) {
      const Array clipped = o.l1 == 0 ? zeros_like(z) : minimum(maximum(z, -o.l1), o.l1);
      return (clipped - z) / (times(inverse, powered(n)) + convert(l2, z.dtype())) - convert(p, z.dtype());
    };
    Tree updates = together(lead, linear, squares, params);
    return std::pair(
        std::move(updates),
        Tree::dict({{"count", Tree(count + 1)}, {"squares", std::move(squares)}, {"linear", std::move(linear)}}));
  };
  return {init, update};
}

}  // namespace lockstep::optim
