#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/backend/reusable_memory.h>
#include <lockstep/lockstep.h>

#include "engine/trace/array_state.h"
#include "tests/support/launcher.h"
#include "tests/support/training.h"

// What a process has resident while it makes a step: its parts of the state, and what the plan of the step says.

namespace lockstep::tests {
namespace {

/// A line of /proc/self/status, in bytes.
double status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

/// From here on the peak is counted anew.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

/// Of 16 MiB each. Where layers are computed again, so are the moves of their kernels.
Model<Array, Array> four_kernels(bool computed_again) {
  return Model<Array, Array>([computed_again](const Scope& s, const Array& x) {
    Array h = x;
    for (const char* name : {"a", "b", "c", "d"}) {
      const auto layer = [&](const Array& v) { return tanh(dense(s[name], v, {.units = 2048, .use_bias = false})); };
      h = computed_again ? remat(layer)(h) : layer(h);
    }
    return h;
  });
}

double leaf_bytes(const Tree& tree) {
  double bytes = 0;
  for (const Array& leaf : tree.leaves()) bytes += static_cast<double>(leaf.state()->buffer->nbytes());
  return bytes;
}

double mebibytes(double bytes) { return bytes / (1 << 20); }

}  // namespace

TEST_CASE("what each launched process has resident while it makes a step" * doctest::skip()) {
  const int zero = std::atoi(std::getenv("LOCKSTEP_TEST_ZERO"));
  const bool computed_again = std::getenv("LOCKSTEP_TEST_REMAT") != nullptr;
  const auto model = four_kernels(computed_again);
  const TrainStep step =
      model_parallel(loss_of(model), optim::adam(1e-3), {.mesh = Mesh({{"data", 4}}, {Device{}}), .zero = zero});
  const Batch batch{random::normal(random::key(1), {8, 2048}), random::normal(random::key(2), {8, 2048}), ones({8})};
  static_cast<void>(step(fresh_state(step, model, batch), batch));  // what the program itself takes
  backend::release_reusable_memory();
  const double before = status_bytes("VmRSS");
  TrainState state = fresh_state(step, model, batch);
  backend::release_reusable_memory();
  forget_peak();
  for (int i = 0; i < 2; ++i) state = step(std::move(state), batch).first;
  const double peak = status_bytes("VmHWM") - before;
  const Plan plan = step.program(state, batch).plan();
  const double parts = leaf_bytes(to_tree(state));
  const double of_step = static_cast<double>(plan.arena_bytes + plan.shard_bytes + plan.scratch_bytes);
  std::printf("zero %d%s: state %.1f MiB, arena %.1f, shard %.1f, scratch %.1f, planned %.1f, measured %.1f\n", zero,
              computed_again ? " with layers computed again" : "", mebibytes(parts),
              mebibytes(static_cast<double>(plan.arena_bytes)), mebibytes(static_cast<double>(plan.shard_bytes)),
              mebibytes(static_cast<double>(plan.scratch_bytes)), mebibytes(parts + of_step), mebibytes(peak));
  CHECK(peak == doctest::Approx(parts + of_step).epsilon(0.1));
  world()->barrier();
}

TEST_CASE("ZeRO 0 to 3 in 4 processes: each has resident what the plan of its step says") {
  if (!can_launch()) return skip(no_launcher());
  double least = 1e9;  // of the stages before, in MiB
  for (const auto& [zero, settings] : {std::pair<std::string, std::string>{"0", ""},
                                       {"1", ""},
                                       {"2", ""},
                                       {"3", ""},
                                       {"3", "LOCKSTEP_TEST_REMAT=1 "}}) {
    const std::string output = launched(4, "what each launched process has resident while it makes a step",
                                        settings + "LOCKSTEP_TEST_ZERO=" + zero + " ");
    CAPTURE(output);
    CHECK(count(output, ", measured ") == 4);
    CHECK(count(output, "FAILURE") == 0);
    const std::string name = "planned ";
    const std::size_t found = output.find(name);
    REQUIRE(found != std::string::npos);
    const double planned = std::stod(output.substr(found + name.size()));
    CHECK(planned < least);
    least = planned;
  }
}

}  // namespace lockstep::tests
