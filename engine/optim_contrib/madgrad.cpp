#include <utility>

#include <lockstep/optim_contrib/optimizers.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"

namespace lockstep::optim {

GradientTransformation scale_by_madgrad(LearningRate rate, double momentum, double epsilon) {
  check_share("madgrad", "momentum", momentum);
  check_not_negative("madgrad", "epsilon", epsilon);
  auto init = [](const Tree& params) {
    check_real("madgrad", params);
    return Tree::dict({{"count", Tree(first_count())},
                       {"squares", zeros_of(params)},
                       {"sum", zeros_of(params)},
                       {"start", widened(params)}});
  };
  auto update = [=](const Tree& gradients, const Tree& state, const Tree& params) {
    const Array count = state.at("count").array();
    const Array weight = (rate.schedule()(count) + epsilon) * sqrt(convert(count + 1, float64));
    Tree squares =
        map_pairs([&](const Array& s, const Array& g) { return s + times(weight, magnitude_squared(wide(g))); },
                  state.at("squares"), gradients);
    Tree sum = map_pairs([&](const Array& s, const Array& g) { return s + times(weight, wide(g)); }, state.at("sum"),
                         gradients);
    const auto way = [&](const Array& start, const Array& s, const Array& square, const Array& p) {
      const Array target = start - s / (cbrt(square) + epsilon);
      return (1.0 - momentum) * (target - convert(p, start.dtype()));
    };
    Tree updates = together(way, state.at("start"), sum, squares, params);
    return std::pair(std::move(updates), Tree::dict({{"count", Tree(count + 1)},
                                                     {"squares", std::move(squares)},
                                                     {"sum", std::move(sum)},
                                                     {"start", state.at("start")}}));
  };
  return {init, update};
}

GradientTransformation madgrad(LearningRate rate, double momentum, double weight_decay, double epsilon) {
  GradientTransformation rule = scale_by_madgrad(std::move(rate), momentum, epsilon);
  return weight_decay == 0 ? rule : chain(add_decayed_weights(weight_decay), std::move(rule));
}

}  // namespace lockstep::optim
