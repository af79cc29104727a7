#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/transforms.h>

#include "tests/optim/values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using optim::GradientTransformation;
using tests::Values;

namespace {

Tree tree_of(const Values& a, const Values& b) { return Tree::dict({{"a", Tree(array(a))}, {"b", Tree(array(b))}}); }

/// Parameters after applying the gradients one after the other.
Tree after(const GradientTransformation& optimizer, Tree params, const std::vector<Tree>& gradients) {
  Tree state = optimizer.init(params);
  for (const Tree& g : gradients) {
    auto [updates, next] = optimizer.update(g, state, params);
    params = optim::apply_updates(params, updates);
    state = next;
  }
  return params;
}

void check_near(const Tree& tree, const std::string& path, const Values& expected, double tolerance = 1e-12) {
  const Values values = tree.at(path).array().to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(tolerance));
}

/// Adam by the paper's algorithm 1, in plain C++; decoupled decay added to the direction.
double adam_reference(double w, const Values& gradients, double rate, double decay) {
  double m = 0;
  double v = 0;
  for (std::size_t t = 1; t <= gradients.size(); ++t) {
    const double g = gradients[t - 1];
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double m_hat = m / (1 - std::pow(0.9, static_cast<double>(t)));
    const double v_hat = v / (1 - std::pow(0.999, static_cast<double>(t)));
    w -= rate * (m_hat / (std::sqrt(v_hat) + 1e-8) + decay * w);
  }
  return w;
}

}  // namespace

TEST_CASE("sgd, momentum and nesterov take the steps their formulas say") {
  const Tree params = tree_of({1, 2}, {3});
  const Tree g = tree_of({1, -2}, {4});
  check_near(after(optim::sgd(0.5), params, {g, g}), "a", {0, 4});
  // v1 = g, v2 = 0.9 g + g: w = 3 - 0.5 (4 + 7.6).
  check_near(after(optim::sgd(0.5, 0.9), params, {g, g}), "b", {3 - 0.5 * (4 + 7.6)});
  // Nesterov steps along g + 0.9 v.
  check_near(after(optim::sgd(0.5, 0.9, true), params, {g}), "b", {3 - 0.5 * (4 + 3.6)});
}

TEST_CASE("adam and adamw follow Kingma and Ba, and Loshchilov and Hutter") {
  const Values gradients = {0.3, -1.2, 5, 0.001};
  std::vector<Tree> trees;
  for (const double g : gradients) trees.push_back(tree_of({g}, {-g}));
  const Tree params = tree_of({0.7}, {-2});
  const Tree adam = after(optim::adam(0.01), params, trees);
  check_near(adam, "a", {adam_reference(0.7, gradients, 0.01, 0)}, 1e-13);
  const Tree adamw = after(optim::adamw(0.01, 0.9, 0.999, 1e-8, 0.1), params, trees);
  check_near(adamw, "a", {adam_reference(0.7, gradients, 0.01, 0.1)}, 1e-13);
}

TEST_CASE("decaying averages end at 0, not at subnormal numbers") {
  const auto zeros_for = [](DType dtype) { return Tree(convert(array(Values{0, 0, 0}), dtype)); };
  const auto decayed = [](DType dtype, const Values& values) { return Tree(convert(array(values), dtype)); };
  const Values given = {1.2e-38, -1.2e-38, 2e-38};  // The smallest normal float32 is 1.18e-38.
  for (const DType dtype : {float32, bfloat16}) {
    const Tree zero = zeros_for(dtype);
    const auto [update, velocity] = optim::trace(0.9).update(zero, decayed(dtype, given), zero);
    const Values left = convert(velocity.array(), float64).to_vector<double>();
    CHECK(left[0] == 0);
    CHECK(left[1] == 0);
    CHECK(left[2] == doctest::Approx(1.8e-38).epsilon(0.01));
    const Tree state = Tree::dict({{"count", Tree(full({}, 3, int32))},
                                   {"mu", decayed(dtype, given)},
                                   {"nu", decayed(dtype, {1.2e-38, 0, 2e-38})}});
    const auto [direction, next] = optim::scale_by_adam(0.9, 0.9).update(zero, state, zero);
    check_near(Tree::dict({{"mu", Tree(convert(next.at("mu").array(), float64))}}), "mu", left);
    CHECK(convert(next.at("nu").array(), float64).to_vector<double>()[0] == 0);
    CHECK(convert(next.at("nu").array(), float64).to_vector<double>()[2] > 1.7e-38);
  }
  const auto [update, velocity] = optim::trace(0.5).update(zeros_for(float16), decayed(float16, {4e-6, 0, 0}), {});
  CHECK(convert(velocity.array(), float64).to_vector<double>()[0] > 1e-6);  // subnormal in float16
}

TEST_CASE("decayed weights shrink once an update") {
  const Tree zero = tree_of({0}, {0});
  const auto decay = optim::chain(optim::masked(optim::add_decayed_weights(0.004), optim::below("a")),
                                  optim::scale_by_learning_rate(1.0));
  const Tree params = after(decay, tree_of({2}, {3}), {zero, zero, zero});
  check_near(params, "a", {2 * 0.996 * 0.996 * 0.996});
  check_near(params, "b", {3});
}

TEST_CASE("clipping") {
  const Tree params = tree_of({0, 0}, {0});
  const Tree g = tree_of({3, 0}, {4});
  const auto descend = [](GradientTransformation t) { return optim::chain(t, optim::scale_by_learning_rate(1.0)); };
  check_near(after(descend(optim::clip_by_global_norm(1.0)), params, {g}), "a", {-0.6, 0});
  check_near(after(descend(optim::clip_by_global_norm(5.1)), params, {g}), "b", {-4});
  check_near(after(descend(optim::clip_by_value(3.5)), params, {g}), "b", {-3.5});
  CHECK(optim::global_norm(g).item<double>() == 5);
  tests::expect_error<ValueError>([&] { static_cast<void>(optim::clip_by_global_norm(0)); }, "above 0");
  tests::expect_error<ValueError>([&] { static_cast<void>(optim::clip_by_value(std::nan(""))); }, "above 0");
  // Numbers are named as they were given, small ones too.
  tests::expect_error<ValueError>([&] { static_cast<void>(optim::clip_by_global_norm(-1e-7)); },
                                  "the limit is -1e-07;");
  tests::expect_error<ValueError>([&] { static_cast<void>(optim::sgd(-2.5e-9)); },
                                  "[learning rate] -2.5e-09 was given");
}

TEST_CASE("a frozen sub-tree stays, bit for bit") {
  const auto optimizer = optim::chain(optim::adam(0.1), optim::freeze(optim::below("a")));
  const Tree g = tree_of({1, 1}, {1});
  const Tree params = after(optimizer, tree_of({1, 2}, {3}), {g, g});
  CHECK(params.at("a").array().to_vector<double>() == Values{1, 2});
  CHECK(params.at("b").array().to_vector<double>() != Values{3});
}

TEST_CASE("masks, labels and freezes inside of a mask or a partition meet the paths of the whole tree") {
  const Tree params = Tree::dict(
      {{"a", Tree(ones({2}))},
       {"b", Tree::dict({{"c", Tree(ones({2}))}, {"d", Tree(ones({2}))}})},
       {"l", Tree::list({Tree(ones({1})), Tree::dict({{"x/y", Tree(ones({1}))}, {"z", Tree(ones({1}))}})})}});
  using optim::below;
  const auto moves = [&](const optim::GradientTransformation& t) {
    std::string moved;
    for (const std::string path : {"a", "b/c", "b/d", "l/0", "l/1/x~1y", "l/1/z"}) {
      const Tree updates = t.update(params, t.init(params), params).first;
      if (sum(updates.at(path).array()).item<float>() != updates.at(path).array().size()) moved += " " + path;
    }
    return moved;
  };
  const auto twice = optim::scale(2);
  CHECK(moves(optim::masked(optim::masked(twice, below("b/c")), below("b"))) == " b/c");
  CHECK(moves(optim::masked(optim::masked(optim::masked(twice, below("l/1")), below("l")), below(""))) ==
        " l/1/x~1y l/1/z");
  CHECK(moves(optim::masked(optim::masked(twice, below("l/1/x~1y")), below("l"))) == " l/1/x~1y");
  CHECK(moves(optim::masked(optim::chain(twice, optim::freeze(below("b/d"))), below("b"))) == " b/c b/d");
  CHECK(optim::masked(optim::freeze(below("b/d")), below("b"))
            .update(params, Tree(), params)
            .first.at("b/d")
            .array()
            .to_vector<float>() == std::vector<float>{0, 0});
  CHECK(moves(optim::masked(optim::add_decayed_weights(0.5, below("b/c")), below("b"))) == " b/c");
  const auto own = [](const std::string& path, const Array&) { return path == "b/c" ? "twice" : "once"; };
  const auto inner = optim::partition({{"twice", twice}, {"once", optim::identity()}}, own);
  const auto all = [](const std::string&, const Array&) { return "all"; };
  CHECK(moves(optim::partition({{"all", inner}}, all)) == " b/c");
  CHECK(optim::masked(optim::trace(0.9), below("b")).init(params).paths() == std::vector<std::string>{"b/c", "b/d"});
  // A single leaf, and no leaf at all.
  const Tree one = Tree(ones({2}));
  CHECK(sum(optim::masked(twice, below("")).update(one, Tree(), one).first.array()).item<float>() == 4);
  CHECK(sum(optim::masked(twice, below("b")).update(one, Tree(), one).first.array()).item<float>() == 2);
}

TEST_CASE("below takes a path and what hangs under it") {
  const optim::Mask mask = optim::below("block/conv");
  CHECK(mask("block/conv"));
  CHECK(mask("block/conv/kernel"));
  CHECK_FALSE(mask("block/conv_2/kernel"));
  CHECK_FALSE(mask("block"));
  CHECK(optim::below("")("anything"));
}

TEST_CASE("learning rates must be finite and not negative") {
  tests::expect_error<ValueError>([&] { static_cast<void>(optim::sgd(-1.0)); }, "finite and not negative");
  tests::expect_error<ValueError>([&] { static_cast<void>(optim::sgd(std::nan(""))); }, "finite and not negative");
  tests::expect_error<ValueError>([&] { static_cast<void>(optim::sgd(INFINITY)); }, "finite and not negative");
}

TEST_CASE("a chain refuses the state of another one") {
  const auto chain = optim::chain(optim::identity(), optim::identity());
  tests::expect_error<StateError>(
      [&] { static_cast<void>(chain.update(tree_of({1}, {1}), Tree::list({}), tree_of({1}, {1}))); }, "0 items for 2");
}

TEST_CASE("schedules are the published curves") {
  const auto at = [](const Schedule& schedule, std::int32_t step) { return schedule(array(step)).item<double>(); };
  const Schedule cosine = schedules::cosine(2.0, 10, 0.1);
  const Schedule warm = schedules::warmup_cosine(0.0, 1.0, 4, 12, 0.2);
  const Schedule pieces = schedules::piecewise_constant({3, 5}, {1.0, 0.5, 0.1});
  for (std::int32_t step = 0; step <= 14; ++step) {
    const double fraction = std::min(step / 10.0, 1.0);
    CHECK(at(cosine, step) ==
          doctest::Approx(2 * (0.9 * 0.5 * (1 + std::cos(std::numbers::pi * fraction)) + 0.1)).epsilon(1e-12));
    const double decay = std::clamp((step - 4) / 8.0, 0.0, 1.0);
    const double expected = step < 4 ? step / 4.0 : 0.2 + 0.8 * 0.5 * (1 + std::cos(std::numbers::pi * decay));
    CHECK(at(warm, step) == doctest::Approx(expected).epsilon(1e-12));
    CHECK(at(pieces, step) == (step <= 3 ? 1.0 : step <= 5 ? 0.5 : 0.1));
  }
  CHECK(at(schedules::constant(0.25), 99) == 0.25);
  CHECK(at(schedules::warmup_cosine(0.1, 1.0, 4, 12), -2) == 0.1);
  CHECK(at(schedules::linear_onecycle(10, 1.0, {.start_divisor = 4}), -2) == 0.25);
  tests::expect_error<ValueError>([&] { static_cast<void>(schedules::cosine(1, 0)); }, "decay_steps is 0");
  tests::expect_error<ValueError>([&] { static_cast<void>(schedules::warmup_cosine(0, 1, 5, 5)); },
                                  "must be above warmup_steps");
  tests::expect_error<ValueError>([&] { static_cast<void>(schedules::piecewise_constant({1}, {1.0})); },
                                  "one value more");
  tests::expect_error<ValueError>(
      [&] {
        static_cast<void>(schedules::piecewise_constant({2, 2}, {1.0, 2.0, 3.0}));
      },
      "must rise");
}

TEST_CASE("a schedule is a traced value: steps do not trace anew") {
  const auto optimizer = optim::adamw(schedules::warmup_cosine(0.0, 0.1, 5, 50));
  const auto step = jit([&](const Tree& params, const Tree& state, const Tree& g) {
    auto [updates, next] = optimizer.update(g, state, params);
    return std::pair(optim::apply_updates(params, updates), next);
  });
  Tree params = tree_of({1, 2}, {3});
  Tree state = optimizer.init(params);
  for (int i = 0; i < 20; ++i) std::tie(params, state) = step(params, state, tree_of({1, -1}, {2}));
  CHECK(step.traces() == 1);
}

TEST_CASE("every optimizer finds the minimum of a parabola") {
  const std::vector<std::pair<std::string, GradientTransformation>> table = {
      {"sgd", optim::sgd(0.1)},
      {"momentum", optim::sgd(0.02, 0.9)},
      {"nesterov", optim::sgd(0.02, 0.9, true)},
      {"adam", optim::adam(0.1)},
      {"adamw", optim::adamw(0.1, 0.9, 0.999, 1e-8, 1e-6)},
  };
  for (const auto& [name, optimizer] : table) {
    CAPTURE(name);
    const Array target = array(Values{1, -2, 3});
    const auto step = jit([&](const Tree& params, const Tree& state) {
      auto gradient = grad([&](const Tree& p) { return sum(square(p.at("w").array() - target)); });
      auto [updates, next] = optimizer.update(gradient(params), state, params);
      return std::pair(optim::apply_updates(params, updates), next);
    });
    Tree params = Tree::dict({{"w", Tree(array(Values{0, 0, 0}))}});
    Tree state = optimizer.init(params);
    for (int i = 0; i < 400; ++i) std::tie(params, state) = step(params, state);
    const Values w = params.at("w").array().to_vector<double>();
    const Values goal = {1, -2, 3};
    for (std::size_t i = 0; i < w.size(); ++i) CHECK(w[i] == doctest::Approx(goal[i]).epsilon(1e-3));
  }
}
