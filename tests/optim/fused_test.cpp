#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

using namespace lockstep;
using namespace lockstep::optim;

namespace {

struct Loops {
  int fused = 0;  ///< Fused loops over whole leaves.
  int apart = 0;  ///< Other kernels over whole leaves.
};

/// Of one update of a leaf [64, 64], added to it.
Loops loops_of(const GradientTransformation& t) {
  const Tree p = Tree(ones({64, 64}));
  const auto moved = [&t](const Tree& gradient, const Tree& state, const Tree& params) {
    auto [updates, next] = update(t, gradient, state, params, full({}, 1.0));
    return std::pair(apply_updates(params, updates), next);
  };
  Loops loops;
  for (const OpCost& cost : trace_function(moved, p, t.init(p), p).plan().ops) {
    if (cost.bytes / static_cast<double>(cost.runs) < 64 * 64 * 4) continue;
    (cost.op.starts_with("fused(") ? loops.fused : loops.apart) += static_cast<int>(cost.runs);
  }
  return loops;
}

}  // namespace

TEST_CASE("what is element by element is one loop over each leaf, as adam is") {
  const std::vector<std::pair<std::string, GradientTransformation>> all = {
      {"adam", adam(0.1)},
      {"adamw", adamw(0.1)},
      {"lion", lion(0.1)},
      {"sgd", sgd(0.1, 0.9, true)},
      {"rmsprop", rmsprop(0.1)},
      {"rmsprop, centered", rmsprop(0.1, {.centered = true, .bias_correction = true}, 0.9, true)},
      {"adagrad", adagrad(0.1)},
      {"adadelta", adadelta(0.1)},
      {"nadamw", nadamw(0.1)},
      {"adamax", adamax(0.1)},
      {"amsgrad", amsgrad(0.1)},
      {"adabelief", adabelief(0.1)},
      {"radam", radam(0.1)},
      {"yogi", yogi(0.1)},
      {"ademamix", ademamix(0.1)},
      {"adan", adan(0.1)},
      {"sign_sgd", sign_sgd(0.1)},
      {"signum", signum(0.1)},
      {"rprop", rprop(0.1)},
      {"optimistic_gradient_descent", optimistic_gradient_descent(0.1)},
      {"multi_steps", multi_steps(adam(0.1), 3)},
      {"average_parameters", chain(adam(0.1), average_parameters(0.9, {.overwrite_every = 3}))},
      {"lookahead", lookahead(adam(0.1), 3, 0.5)},
      {"schedule_free_adamw", schedule_free_adamw(0.1)},
      {"inject_hyperparams",
       inject_hyperparams([](const Named<LearningRate>& v) { return adam(v.at("rate")); }, {{"rate", 0.1}})},
      {"reduce_on_plateau", chain(adam(0.1), reduce_on_plateau())},
  };
  for (const auto& [name, t] : all) {
    CAPTURE(name);
    const Loops loops = loops_of(t);
    CHECK(loops.apart == 0);
    CHECK(loops.fused == 1);
  }
}
