#include "optimizer_step.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <lockstep/lockstep.h>

namespace lockstep::benches {

namespace {

constexpr std::string_view adam_on_a_vector = "adam10m";

optim::GradientTransformation optimizer_of(std::string_view name) {
  if (name == adam_on_a_vector) return optim::adam(1e-3);
  if (name == "lion_weights") return optim::lion(1e-4, 0.9, 0.99, 1e-3);
  if (name == "adabelief_weights") return optim::adabelief(1e-3);
  if (name == "lamb_weights") return optim::lamb(1e-3, 0.9, 0.999, 1e-6, 1e-2);
  if (name == "adafactor_weights") return optim::adafactor(1e-3);
  return optim::muon(1e-3);
}

/// Of every system's first step and gradient.
Tree drawn(std::string_view name, std::uint64_t seed, double scale) {
  if (name == adam_on_a_vector)
    return Tree::dict({{"w", Tree(scale * random::normal(random::key(seed), {10'000'000}))}});
  std::map<std::string, Tree> leaves;
  const Array keys = random::split(random::key(seed), 8);
  for (int i = 0; i < 8; ++i) {
    const std::string layer = "dense_" + std::to_string(i);
    leaves.emplace(layer + "_bias", Tree(scale * random::normal(keys[i], {1024})));
    leaves.emplace(layer + "_kernel", Tree(scale * random::normal(keys[i], {1024, 1024})));
  }
  return Tree::dict(std::move(leaves));
}

}  // namespace

bool is_optimizer_workload(std::string_view name) { return name == adam_on_a_vector || name.ends_with("_weights"); }

void write_optimizer_inputs(std::string_view name, const std::filesystem::path& folder) {
  const Tree gradients = drawn(name, 1, 1);
  if (name == adam_on_a_vector) {  // a batch, as of a training step
    const Array gradient = gradients.at("w").array();
    checkpoint::save(folder / "weights", Tree::dict({{"w", Tree(zeros_like(gradient))}}), {});
    checkpoint::save(folder / "batches",
                     Tree::dict({{"x", Tree(expand_dims(gradient, 0))}, {"y", Tree(zeros({1, 1}, int32))}}), {});
    return;
  }
  checkpoint::save(folder / "weights", drawn(name, 2, 0.03), {});
  checkpoint::save(folder / "batches", gradients, {});
}

std::function<double()> optimizer_step(std::string_view name, const std::filesystem::path& folder,
                                       std::shared_ptr<Profile> profile) {
  const auto optimizer = optimizer_of(name);
  const bool is_vector = name == adam_on_a_vector;
  const std::string first = is_vector ? "w" : "dense_0_bias";
  Tree gradients = checkpoint::restore(folder / "batches").tree;
  if (is_vector) gradients = Tree::dict({{"w", Tree(gradients.at("x").array()[0])}});
  Tree w = checkpoint::restore(folder / "weights").tree;
  Tree slots = optimizer.init(w);
  const auto update = jit(
      [optimizer, first](const Tree& weights, const Tree& state, const Tree& g) {
        const auto [updates, next] = optimizer.update(g, state, weights);
        const Tree moved = optim::apply_updates(weights, updates);
        return std::tuple(moved, next, moved.at(first).array()[0]);
      },
      {.debug = {.profile = std::move(profile)}});
  return [=]() mutable {
    auto [moved, next, one] = update(std::move(w), std::move(slots), gradients);
    w = std::move(moved);
    slots = std::move(next);
    return static_cast<double>(one.template item<float>());
  };
}

}  // namespace lockstep::benches
