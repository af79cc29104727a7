#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/processes.h>

#include "tests/support/launcher.h"
#include "tests/support/replicas.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"

// Trainings of small models that are spread over devices and processes in many ways, and must end with the same bits.
namespace lockstep::tests {

struct SpreadModel {
  std::string name;
  Model<Array, Array> model;
  std::function<Batch(std::int64_t rows, int step)> batch;
};

inline Array spread_mlp(const Scope& scope, const Array& x) {
  const Array h = relu(dense(scope["in"], x, {.units = 24}));
  return dense(scope["out"], dropout(scope["drop"], h, 0.25), {.units = 4});
}

inline Array spread_cnn(const Scope& scope, const Array& x) {
  Array h = x;
  for (const char* name : {"first", "second"}) {
    h = conv2d(scope[name]["conv"], h, {.filters = 6, .use_bias = false});
    h = max_pool2d(relu(batch_norm(scope[name]["norm"], h, {.per_microbatch = true})), {2, 2});
  }
  return dense(scope["head"], reshape(h, {h.dim(0), -1}), {.units = 4});
}

inline Array spread_gpt(const Scope& scope, const Array& tokens) {
  return models::gpt(scope, tokens, {.vocabulary = 13, .blocks = {.width = 16, .depth = 2, .heads = 2}});
}

/// An mlp with dropout, a cnn with BatchNorm over the whole batch, a gpt.
inline std::vector<SpreadModel> spread_models() {
  const auto images = [](const Shape& shape) {
    return [shape](std::int64_t rows, int step) {
      const Array key = random::fold_in(random::key(5), step);
      const Array x = random::normal(key, shape.insert(0, rows));
      return Batch{x, convert(remainder(iota({rows}, 0) + step, 4), int32), ones({rows})};
    };
  };
  const auto tokens = [](std::int64_t rows, int step) {
    const Array all = random::randint(random::fold_in(random::key(6), step), {rows, 9}, 0, 13);
    return Batch{slice_in_dim(all, 0, 8, 1), slice_in_dim(all, 1, 9, 1), ones({rows})};
  };
  return {{"mlp", Model<Array, Array>(spread_mlp), images(Shape{10})},
          {"cnn", Model<Array, Array>(spread_cnn), images(Shape{8, 8, 1})},
          {"gpt", Model<Array, Array>(spread_gpt), tokens}};
}

/// How a training is spread, and how long it is.
struct Spread {
  std::int64_t shards = 8;
  int devices = 1;  ///< Of each process.
  int steps = 10;
};

inline std::string trained_fingerprint(const SpreadModel& m, const Spread& spread, std::int64_t microbatches) {
  DataParallelOptions options = parallel({spread.shards, spread.devices});
  options.microbatches = microbatches;
  const std::int64_t rows = 2 * spread.shards;
  const TrainStep step = data_parallel(loss_of(m.model), optim::adam(0.01), options);
  TrainState state = fresh_state(step, m.model, m.batch(rows, 0));
  for (int i = 0; i < spread.steps; ++i) state = step(std::move(state), m.batch(rows, i)).first;
  return fingerprint(to_tree(state));
}

/// One line for each model, with and without gradient accumulation.
inline std::string trained_lines(const Spread& spread) {
  std::string lines;
  for (const SpreadModel& m : spread_models()) {
    for (const std::int64_t microbatches : {1, 2}) {
      lines +=
          m.name + " of " + std::to_string(microbatches) + ": " + trained_fingerprint(m, spread, microbatches) + "\n";
    }
  }
  return lines;
}

inline constexpr const char* spread_folder = "LOCKSTEP_TEST_SPREAD_FOLDER";
inline constexpr const char* spread_settings = "LOCKSTEP_TEST_SPREAD";

/// In a process that `trained_in_processes` has launched: trains, and leaves the lines in the folder.
inline void train_launched() {
  const char* folder = std::getenv(spread_folder);
  const char* settings = std::getenv(spread_settings);
  REQUIRE(folder != nullptr);
  REQUIRE(settings != nullptr);
  Spread spread;
  std::istringstream(settings) >> spread.shards >> spread.devices >> spread.steps;
  std::ofstream(std::filesystem::path(folder) / std::to_string(world()->rank())) << trained_lines(spread);
  world()->barrier();
}

/// The lines of each process; `test_case` of this program calls `train_launched`.
inline std::vector<std::string> trained_in_processes(int processes, const Spread& spread,
                                                     const std::string& test_case) {
  const TemporaryFolder folder;
  const std::string settings = std::string(spread_folder) + "='" + folder.path().string() + "' " + spread_settings +
                               "='" + std::to_string(spread.shards) + " " + std::to_string(spread.devices) + " " +
                               std::to_string(spread.steps) + "' timeout 1200 ";
  const std::string output = launched(processes, test_case, settings);
  CAPTURE(output);
  CHECK(count(output, "SUCCESS!") == static_cast<std::size_t>(processes));
  std::vector<std::string> lines;
  for (int rank = 0; rank < processes; ++rank) lines.push_back(file_text(folder.path() / std::to_string(rank)));
  return lines;
}

/// All processes' lines are those expected.
inline void check_in_processes(int processes, const Spread& spread, const std::string& test_case,
                               const std::string& expected) {
  CAPTURE(processes);
  CAPTURE(spread.devices);
  for (const std::string& lines : trained_in_processes(processes, spread, test_case)) CHECK(lines == expected);
}

}  // namespace lockstep::tests
