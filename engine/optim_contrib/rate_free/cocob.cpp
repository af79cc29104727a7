#include <utility>

#include <lockstep/optim_contrib/optimizers.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"

namespace lockstep::optim {

GradientTransformation scale_by_cocob(CocobOptions options) {
  check_positive("cocob", "alpha", options.alpha);
  check_positive("cocob", "epsilon", options.epsilon);
  auto init = [o = options](const Tree& params) {
    check_real("cocob", params);
    return Tree::dict({{"start", widened(params)},
                       {"sum", zeros_of(params)},
                       {"largest", real_slots_of(params, o.epsilon)},
                       {"magnitudes", zeros_of(params)},
                       {"reward", zeros_of(params)}});
  };
  auto update = [o = options](const Tree& gradients, const Tree& state, const Tree& params) {
    const Tree g = widened(gradients), &start = state.at("start");
    Tree largest = map_pairs([](const Array& l, const Array& x) { return maximum(l, abs(x)); }, state.at("largest"), g);
    Tree magnitudes = map_pairs([](const Array& s, const Array& x) { return s + abs(x); }, state.at("magnitudes"), g);
    const auto won = [](const Array& w, const Array& x, const Array& p, const Array& from) {
      return maximum(w - x * (convert(p, from.dtype()) - from), 0);
    };
    Tree reward = together(won, state.at("reward"), g, params, start);
    Tree total = map_pairs([](const Array& c, const Array& x) { return c - x; }, state.at("sum"), g);
    const auto bet = [&](const Array& p, const Array& from, const Array& c, const Array& l, const Array& s,
                         const Array& w) {
      return from + c / (l * maximum(s + l, o.alpha * l)) * (l + w) - convert(p, from.dtype());
    };
    Tree updates = together(bet, params, start, total, largest, magnitudes, reward);
    return std::pair(std::move(updates), Tree::dict({{"start", start},
                                                     {"sum", std::move(total)},
                                                     {"largest", std::move(largest)},
                                                     {"magnitudes", std::move(magnitudes)},
                                                     {"reward", std::move(reward)}}));
  };
  return {init, update};
}

GradientTransformation cocob(LearningRate rate, CocobOptions options) {
  GradientTransformation scaled = chain(scale_by_learning_rate(std::move(rate)), scale(-1));
  if (options.weight_decay == 0) return chain(std::move(scaled), scale_by_cocob(options));
  return chain(add_decayed_weights(options.weight_decay), std::move(scaled), scale_by_cocob(options));
}

}  // namespace lockstep::optim
