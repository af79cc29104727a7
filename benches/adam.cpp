#include "adam.h"

#include <tuple>
#include <utility>

#include <lockstep/lockstep.h>

namespace lockstep::benches {

namespace {

constexpr std::int64_t parameters = 10'000'000;

}  // namespace

void write_adam_inputs(const std::filesystem::path& folder) {
  const Array gradient = random::normal(random::key(1), {1, parameters});
  checkpoint::save(folder / "weights", Tree::dict({{"w", Tree(zeros({parameters}))}}), {});
  checkpoint::save(folder / "batches", Tree::dict({{"x", Tree(gradient)}, {"y", Tree(zeros({1, 1}, int32))}}), {});
}

std::function<double()> adam_step(const std::filesystem::path& folder, std::shared_ptr<Profile> profile) {
  const auto optimizer = optim::adam(1e-3);
  const Array gradient = checkpoint::restore(folder / "batches").tree.at("x").array()[0];
  Array w = checkpoint::restore(folder / "weights").tree.at("w").array();
  Tree slots = optimizer.init(Tree(w));
  const auto update = jit(
      [optimizer](const Array& weights, const Tree& state, const Array& g) {
        const auto [updates, next] = optimizer.update(Tree(g), state, Tree(weights));
        const Array moved = optim::apply_updates(Tree(weights), updates).array();
        return std::tuple(moved, next, moved[0]);
      },
      {.debug = {.profile = std::move(profile)}});
  return [=]() mutable {
    auto [moved, next, first] = update(std::move(w), std::move(slots), gradient);
    w = std::move(moved);
    slots = std::move(next);
    return static_cast<double>(first.template item<float>());
  };
}

}  // namespace lockstep::benches
