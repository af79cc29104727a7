#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/transforms.h>

using namespace lockstep;

TEST_CASE("lion moves every weight by the rate, along a sign that the average has its part in") {
  const optim::GradientTransformation lion = optim::lion(0.01, 0.9, 0.99, 0.0);
  Tree params = Tree(array({1.0, 1.0, 1.0, 1.0}));
  Tree state = lion.init(params);
  // Of the last: 0.9 m outweighs 0.1 g until g is nine times what m is; m is 0.01 after the first step.
  const std::vector<Array> gradients = {array({1.0, -1e-6, 0.0, 1.0}), array({-1.0, 3.0, 0.0, -0.05})};
  for (const Array& g : gradients) {
    auto [updates, next] = lion.update(Tree(g), state, params);
    params = optim::apply_updates(params, updates);
    state = std::move(next);
  }
  const std::vector<double> moved = params.array().to_vector<double>();
  const std::vector<double> expected = {1.0, 1.0, 1.0, 0.98};
  for (std::size_t i = 0; i < moved.size(); ++i) CHECK(moved[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

TEST_CASE("lion's decay shrinks weights by rate times decay, whatever their gradients") {
  const optim::GradientTransformation lion = optim::lion(0.1, 0.9, 0.99, 0.5);
  const Tree params = Tree(array({2.0, -4.0}));
  const auto [updates, state] = lion.update(Tree(array({0.0, 0.0})), lion.init(params), params);
  CHECK(updates.array().to_vector<double>() == std::vector<double>{-0.1 * (0.5 * 2.0), -0.1 * (0.5 * -4.0)});
}

TEST_CASE("lion keeps averages of narrow weights in float32 and none that are subnormal") {
  const optim::GradientTransformation lion = optim::scale_by_lion();
  Tree state = lion.init(Tree(zeros({2}, bfloat16)));
  CHECK(state.array().dtype() == float32);
  const auto step = jit([&](const Tree& g, const Tree& s) { return lion.update(g, s, Tree()); });
  state = step(Tree(array({1e-37F, 1.F})), state).second;
  for (int i = 0; i < 20; ++i) state = step(Tree(zeros({2})), state).second;
  CHECK(state.array()[0].item<float>() == 0);
  CHECK(state.array()[1].item<float>() == doctest::Approx(0.01 * std::pow(0.99, 20)).epsilon(1e-5));
}
