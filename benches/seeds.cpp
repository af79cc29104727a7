// usage: bench_seeds [SEEDS]. A training step of several seeds, one after the other and as one vmapped program: medians in
// milliseconds, in turn, and the ratio of the second to the first.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>

#include "timing.h"

namespace {

using namespace lockstep;
using Clock = std::chrono::steady_clock;

double seconds(const std::function<void()>& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// (weights, state of the model, state of the optimizer) -> the same after a step.
auto step_of(const Model<Array, Array>& model, const Array& x, const Array& y,
             const optim::GradientTransformation& optimizer) {
  return [=](const Tree& before) {
    const auto loss = [&](const Tree& w) {
      auto [logits, next] = model.stateless_call(w, before.at("1"), x, true);
      const Weighted sums = softmax_cross_entropy(logits, y);
      return std::pair(sums.sum / sums.weight, next);
    };
    auto [value, gradients] = value_and_grad(loss)(before.at("0"));
    auto [updates, slots] = optim::update(optimizer, gradients, before.at("2"), before.at("0"), value.first);
    return Tree::list({optim::apply_updates(before.at("0"), updates), value.second, slots});
  };
}

/// Leaf by leaf along a new first dimension.
Tree stacked(const std::vector<Tree>& trees) {
  std::vector<std::vector<Array>> leaves;
  for (const Tree& tree : trees) leaves.push_back(tree.leaves());
  std::size_t leaf = 0;
  return map(
      [&](const Array&) {
        std::vector<Array> parts;
        for (const std::vector<Array>& of : leaves) parts.push_back(of[leaf]);
        ++leaf;
        return stack(parts, 0);
      },
      trees[0]);
}

template <class Network>
void compare(const char* name, int seeds, const Shape& rows, Network network) {
  const Array x = random::normal(random::key(1), rows), y = random::randint(random::key(2), {rows[0]}, 0, 10);
  const Model<Array, Array> model(network);
  const optim::GradientTransformation optimizer = optim::adam(1e-3);
  const auto step = step_of(model, x, y, optimizer);
  const auto one = jit(step);
  const auto all = jit(vmap(step));
  std::vector<Tree> states;
  for (int seed = 0; seed < seeds; ++seed) {
    auto [weights, state] = model.init(random::key(static_cast<std::uint64_t>(seed)), x);
    states.push_back(Tree::list({weights, state, optimizer.init(weights)}));
  }
  Tree together = stacked(states);
  std::vector<double> in_turn, at_once;
  for (int sample = 0; sample < 24; ++sample) {
    const double first = seconds([&] {
      for (Tree& state : states) state = one(state);
    });
    const double second = seconds([&] { together = all(together); });
    if (sample < 3) continue;
    in_turn.push_back(first);
    at_once.push_back(second);
  }
  const double a = benches::median(in_turn), b = benches::median(at_once);
  std::printf("%-8s %d seeds: in turn %.3f ms, vmapped %.3f ms, %.2f\n", name, seeds, 1e3 * a, 1e3 * b, b / a);
}

Array mlp(Scope& s, const Array& x, int units) {
  return dense(s["head"], relu(dense(s["hidden"], x, {.units = units})), {.units = 10});
}

Array cnn(Scope& s, const Array& x) {
  const Array h = relu(conv2d(s["conv"], x, {.filters = 16, .kernel = {3, 3}}));
  return dense(s["head"], flatten(max_pool2d(h, {2, 2})), {.units = 10});
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 5;
  compare("mlp 32", seeds, {64, 16}, [](Scope& s, const Array& x) { return mlp(s, x, 32); });
  compare("mlp 256", seeds, {64, 784}, [](Scope& s, const Array& x) { return mlp(s, x, 256); });
  compare("cnn", seeds, {64, 16, 16, 3}, cnn);
}
