#include <utility>

#include <lockstep/ops.h>
#include <lockstep/optim.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"

namespace lockstep::optim {

GradientTransformation scale_by_lion(double b1, double b2) {
  check_share("lion", "b1", b1);
  check_share("lion", "b2", b2);
  auto update = [b1, b2](const Tree& gradients, const Tree& state, const Tree&) {
    const auto mixed = [](double share, const Array& m, const Array& g) {
      return share * wide(m) + (1.0 - share) * wide(g);
    };
    Tree direction = map_pairs([&](const Array& g, const Array& m) { return sign(mixed(b1, m, g)); }, gradients, state);
    Tree mu = map_pairs([&](const Array& g, const Array& m) { return decaying(mixed(b2, m, g)); }, gradients, state);
    return std::pair(std::move(direction), std::move(mu));
  };
  return {zeros_of, update};
}

GradientTransformation lion(LearningRate rate, double b1, double b2, double weight_decay) {
  return chain(scale_by_lion(b1, b2), add_decayed_weights(weight_decay), scale_by_learning_rate(std::move(rate)));
}

}  // namespace lockstep::optim
