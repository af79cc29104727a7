#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/expect_error.h"
#include "tests/support/spread_training.h"

// The short form of tests/soak/one_fingerprint_test.cpp: fewer steps, fewer ways to spread them.
namespace lockstep::tests {

TEST_CASE("what each launched process trains of the small models" * doctest::skip()) { train_launched(); }

TEST_CASE("8 shards over devices and processes train to one fingerprint a model") {
  const std::string expected = trained_lines({.devices = 1});
  for (const int devices : {2, 8}) CHECK(trained_lines({.devices = devices}) == expected);
  if (!can_launch()) return skip(no_launcher());
  for (const auto& [devices, processes] : {std::pair(1, 2), {2, 2}, {2, 4}}) {
    check_in_processes(processes, {.devices = devices}, "what each launched process trains of the small models",
                       expected);
  }
}

TEST_CASE("what a process prints of a training whatever threads libraries have" * doctest::skip()) {
  const auto model = Model<Array, Array>([](const Scope& scope, const Array& x) {
    const Array images = conv2d(scope["conv"], x, {.filters = 16});
    return dense(scope["out"], relu(dense(scope["in"], reshape(images, {x.dim(0), -1}), {.units = 256})), {.units = 4});
  });
  const TrainStep step = data_parallel(loss_of(model), optim::adam(0.01), {.devices = devices("cpu:0-1"), .shards = 4});
  const Batch batch{random::normal(random::key(1), {64, 12, 12, 3}), convert(remainder(iota({64}, 0), 4), int32),
                    ones({64})};
  TrainState state = fresh_state(step, model, batch);
  for (int i = 0; i < 3; ++i) state = step(std::move(state), batch).first;
  const std::string hash = fingerprint(to_tree(state));
  if (world()->rank() == 0) std::printf("\ntrained to %s\n", hash.c_str());
}

TEST_CASE("T87: OMP_NUM_THREADS of 1, 2 and 8 train to the same weights, in one process and in two") {
  std::set<std::string> hashes;
  for (const int processes : {1, 2}) {
    if (processes > 1 && !can_launch()) {
      skip(no_launcher());
      continue;
    }
    for (const char* threads : {"1", "2", "8"}) {
      const std::string settings =
          std::string("LOCKSTEP_TEST_THREADS=1 OMP_NUM_THREADS=") + threads + " MKL_NUM_THREADS=" + threads + " ";
      const std::string launcher = processes > 1 ? mpirun(processes) : "";
      const std::string output =
          output_of(settings + launcher +
                    run_of_case("what a process prints of a training whatever threads libraries have") + " 2>&1");
      CAPTURE(output);
      const std::size_t at = output.find("\ntrained to ");
      REQUIRE(at != std::string::npos);
      hashes.insert(output.substr(at + 12, 64));
    }
  }
  CHECK(hashes.size() == 1);
}

TEST_CASE("more devices than shards are refused by number, in one process and in several") {
  const int processes = world()->size();
  const SpreadModel mlp = spread_models().front();
  const Spread spread{.devices = 16 / processes, .steps = 1};
  const std::string text = error_text<MeshError>([&] { static_cast<void>(trained_fingerprint(mlp, spread, 1)); });
  CHECK_MESSAGE(contains(text, "8 shards"), text);
  CHECK_MESSAGE(contains(text, std::to_string(spread.devices) + " devices"), text);
  if (processes > 1) return;
  if (!can_launch()) return skip(no_launcher());
  const std::string output =
      launched(2, "more devices than shards are refused by number, in one process and in several");
  CAPTURE(output);
  CHECK(count(output, "SUCCESS!") == 2);
}

}  // namespace lockstep::tests
