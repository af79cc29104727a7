// Updates that do not depend on the scale of gradients, far from 1, and averages that are not differences of squares.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/array_values.h"

using namespace lockstep;

namespace {

Tree leaf_tree(const Array& x) { return Tree::dict({{"a", Tree(x)}}); }

/// The update of the second of two steps by these gradients.
Array second_update(const optim::GradientTransformation& optimizer, const Array& params, const Array& first,
                    const Array& second) {
  Tree state = optimizer.init(leaf_tree(params));
  state = optimizer.update(leaf_tree(first), state, leaf_tree(params)).second;
  return optimizer.update(leaf_tree(second), state, leaf_tree(params)).first.at("a").array();
}

bool is_same_update(const Array& a, const Array& b) { return (max(abs(a - b)) <= 2e-5 * max(abs(b))).item<bool>(); }

}  // namespace

TEST_CASE("updates that do not depend on the scale of gradients are those of scale 1 at 1e20 and 1e-15") {
  const Array params = random::normal(random::key(1), {8, 6});
  const Array first = random::normal(random::key(2), {8, 6}), second = random::normal(random::key(3), {8, 6});
  const std::vector<std::pair<std::string, optim::GradientTransformation>> optimizers = {
      {"lars", optim::lars(0.1, {.weight_decay = 0, .momentum = 0})},
      {"scale_by_trust_ratio", optim::scale_by_trust_ratio()},
      {"muon", optim::scale_by_muon({.epsilon = 0})},
      {"novograd", optim::scale_by_novograd(0.9, 0.25, 0, 0)},
      {"adafactor", optim::scale_by_factored_rms({.least_dimension = 2, .epsilon = 0})},
      {"adafactor of all", optim::scale_by_factored_rms({.factored = false, .epsilon = 0})},
      {"clip_by_block_rms", optim::clip_by_block_rms(1e-3)},
      {"adaptive_grad_clip", optim::adaptive_grad_clip(1e-3)}};
  for (const auto& [name, optimizer] : optimizers) {
    CAPTURE(name);
    const Array expected = second_update(optimizer, params, first, second);
    CHECK(max(abs(expected)).item<float>() > 0);
    CHECK(is_same_update(second_update(optimizer, params, first * 1e20, second * 1e20), expected));
    if (name == "clip_by_block_rms" || name == "adaptive_grad_clip") continue;  // an absolute least norm
    CHECK(is_same_update(second_update(optimizer, params, first * 1e-15, second * 1e-15), expected));
  }
}

TEST_CASE("the ratio of lars at gradients times 1e-25 is that of scale 1, times 1e25") {
  const Array params = random::normal(random::key(1), {8}), gradient = random::normal(random::key(2), {8});
  const auto ratio = [&](double scale) {
    const auto optimizer = optim::scale_by_trust_ratio({.coefficient = 1e-30});
    const Tree state = optimizer.init(leaf_tree(params));
    return optimizer.update(leaf_tree(gradient * scale), state, leaf_tree(params)).first.at("a").array() /
           (gradient * scale);
  };
  CHECK(is_same_update(ratio(1e-25) * 1e-25, ratio(1)));
}

TEST_CASE("centered rmsprop divides by a variance that is never below 0") {
  for (const bool corrected : {false, true}) {
    CAPTURE(corrected);
    const auto optimizer = optim::rmsprop(1e-3, {.centered = true, .bias_correction = corrected});
    Tree params = leaf_tree(zeros({64})), state = optimizer.init(params);
    for (int i = 0; i < 200; ++i) {
      const Array gradient = 5 + 1e-3 * random::normal(random::fold_in(random::key(6), i), {64});
      auto [updates, next] = optimizer.update(leaf_tree(gradient), state, params);
      params = optim::apply_updates(params, updates);
      state = std::move(next);
    }
    CHECK(all(is_finite(params.at("a").array())).item<bool>());
    // A constant gradient has no variance: 3.7 / sqrt(0 + 1e-8).
    Tree still = optimizer.init(params);
    const auto updated = optimizer.update(leaf_tree(full({64}, 3.7)), still, params).first.at("a").array();
    if (corrected) CHECK(updated[0].item<float>() == doctest::Approx(-1e-3 * 3.7 / 1e-4).epsilon(1e-5));
  }
}

TEST_CASE("centered rmsprop has the variance of its definition, in float64") {
  const double decay = 0.9, initial = 0.3;
  for (const bool corrected : {false, true}) {
    CAPTURE(corrected);
    const auto rule = optim::scale_by_rms(
        {.decay = decay, .epsilon = 0, .initial = initial, .centered = true, .bias_correction = corrected});
    Tree params = leaf_tree(zeros({1}, float64)), state = rule.init(params);
    double mean = 0, squares = initial, share = 1;
    for (const double g : {0.5, -1.0, 2.0, 0.25}) {
      auto [updates, next] = rule.update(leaf_tree(full({1}, g, float64)), state, params);
      state = std::move(next);
      mean = decay * mean + (1 - decay) * g;
      squares = decay * squares + (1 - decay) * g * g;
      share *= decay;
      const double scale = corrected ? 1 / (1 - share) : 1;
      const double variance = squares * scale - mean * scale * mean * scale;
      CHECK(updates.at("a").array()[0].item<double>() == doctest::Approx(g / std::sqrt(variance)).epsilon(1e-10));
    }
  }
}
