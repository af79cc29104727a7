#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/lockstep.h>

#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/small_training.h"

// Runs with callbacks, options and bad rows that are drawn, to be cut off and gone on with.
using namespace lockstep;
using tests::TemporaryFolder;

namespace {

/// What a run is asked for.
struct DrawnRun {
  std::int64_t steps = 0, epochs = 0;
  std::int64_t log_every = 1, validate_every = 0, save_every = 0;
  std::int64_t microbatches = 1;
  int bad_rows = 0;
  std::int64_t most_skips = 10;
  bool stops = false, reduces = false, averages = false, checkpoints = false, changes_rate = false;
  callbacks::EarlyStoppingOptions stopping = {};
  callbacks::ReduceLROnPlateauOptions plateau = {};
  callbacks::AveragedWeightsOptions average = {};
  callbacks::GradientNormsOptions norms = {};
  callbacks::ModelCheckpointOptions best = {};
};

DrawnRun drawn_run(std::mt19937& draw) {
  const auto below = [&](int n) { return static_cast<std::int64_t>(draw() % static_cast<unsigned>(n)); };
  const auto monitor = [&] { return std::string(below(2) == 0 ? "val_loss" : "loss"); };
  DrawnRun r;
  r.steps = 12 + below(16);
  r.epochs = below(2) == 0 ? 0 : 3 + below(3);
  r.log_every = 1 + below(4);
  r.validate_every = below(3) * 2;
  r.save_every = below(4);
  r.microbatches = below(2) + 1;
  r.bad_rows = static_cast<int>(below(3));
  r.most_skips = 1 + below(4);
  r.stops = below(2) == 0;
  r.reduces = below(2) == 0;
  r.averages = below(3) > 0;
  r.checkpoints = below(2) == 0;
  r.changes_rate = below(3) == 0;
  r.stopping = {.monitor = monitor(),
                .min_delta = 0.05 * static_cast<double>(below(3)),
                .patience = 1 + below(4),
                .restore_best_weights = below(2) == 0,
                .start_from_epoch = below(2)};
  r.plateau = {.monitor = monitor(), .factor = 0.5, .patience = 1 + below(2), .min_delta = 0.2, .cooldown = below(2)};
  r.average = {.momentum = 0.75, .every = 1 + below(3)};
  r.norms = {.every = 1 + below(2), .window = static_cast<std::size_t>(2 + below(4)), .spike = 1.1};
  r.best = {.monitor = monitor(), .save_best_only = below(2) == 0, .save_freq = below(4)};
  return r;
}

/// What a run has left, and what its callbacks have decided.
struct LeftBehind {
  std::string state, checkpoint, table, lines, decisions;
  std::string text() const { return fmt::format("{}\n{}\n{}\n{}\n{}\n", state, checkpoint, table, lines, decisions); }
};

/// Ends a run as if the process had died behind a step.
class DiesAt final : public Callback {
 public:
  explicit DiesAt(std::int64_t step) : step_(step) {}
  void on_step(const StepReport& report, const Tree&, Requests&) override {
    if (report.step == step_) throw std::runtime_error("died");
  }
  std::int64_t every() const override { return 1; }

 private:
  std::int64_t step_;
};

/// Another rate from a step on.
class ChangesRate final : public Callback {
 public:
  void on_step(const StepReport& report, const Tree&, Requests& requests) override {
    if (report.step == 5) requests.set_hyperparameter("learning_rate", 0.04);
  }
  std::int64_t every() const override { return 1; }
};

/// Five batches an epoch, some of whose rows are not finite. Of the last one several shards have padding alone.
data::TreeLoader batches_of(const DrawnRun& run) {
  const std::int64_t rows = 70;
  const Array x = random::normal(random::key(1), {rows, 3});
  const Array y = matmul(x, array(std::vector<float>{1, -2, 0.5F}, {3, 1})) + random::normal(random::key(2), {rows, 1});
  const Array is_bad = reshape(arange(rows) < run.bad_rows, {rows, 1});
  return data::TreeLoader(Batch{where(is_bad, std::numeric_limits<float>::quiet_NaN(), x), y, ones({rows})},
                          {.batch = 16, .seed = 3, .drop_last = false});
}

/// Goes on with the run in a folder where there is one; until it dies.
LeftBehind go_on(const DrawnRun& run, const std::filesystem::path& folder, int devices,
                 std::optional<std::int64_t> dies_at, bool dies_first = false) {
  const TrainStep step = data_parallel(StepLoss(tests::line_loss), tests::adam_in_state(),
                                       {.devices = lockstep::devices("cpu:0-" + std::to_string(devices - 1)),
                                        .shards = 8,
                                        .microbatches = run.microbatches});
  const auto guard = std::make_shared<callbacks::NanGuard>(
      callbacks::NanGuardOptions{.action = callbacks::OnNan::skip, .most_skips = run.most_skips});
  const auto norms = std::make_shared<callbacks::GradientNorms>(run.norms);
  const auto stopping = std::make_shared<callbacks::EarlyStopping>(run.stopping);
  const auto plateau = std::make_shared<callbacks::ReduceLROnPlateau>(run.plateau);
  const auto average = std::make_shared<callbacks::AveragedWeights>(run.average);
  detail::Callbacks all = {guard, norms, std::make_shared<callbacks::CsvLogger>(folder / "metrics.csv"),
                           std::make_shared<callbacks::JsonLinesLogger>(folder / "metrics.jsonl")};
  if (run.stops) all.push_back(stopping);
  if (run.reduces) all.push_back(plateau);
  if (run.averages) all.push_back(average);
  if (run.checkpoints) all.push_back(std::make_shared<callbacks::ModelCheckpoint>(run.best));
  if (run.changes_rate) all.push_back(std::make_shared<ChangesRate>());
  if (dies_at) all.insert(dies_first ? all.begin() : all.end(), std::make_shared<DiesAt>(*dies_at));
  auto batches = batches_of(run);
  const auto manager = std::make_shared<checkpoint::Manager>(folder / "checkpoints");
  LeftBehind left;
  try {
    const TrainState state = fit(step, tests::line_start(step), batches,
                                 {.steps = run.steps,
                                  .epochs = run.epochs,
                                  .log_every = run.log_every,
                                  .validate = tests::line_validation,
                                  .validate_every = run.validate_every,
                                  .checkpoints = manager,
                                  .save_every = run.save_every,
                                  .resume = true},
                                 all);
    left.state = fingerprint(to_tree(state));
  } catch (const std::runtime_error& error) {
    if (std::string(error.what()) != "died") throw;
    return left;
  }
  left.checkpoint = fingerprint(manager->restore(checkpoint::Choice::latest).tree);
  left.table = tests::file_text(folder / "metrics.csv");
  left.lines = tests::file_text(folder / "metrics.jsonl");
  left.decisions = fmt::format("saved {} best {} at {} stopped {} norms {} {} spikes {} skipped {} found {} average {}",
                               manager->steps(), stopping->best(), stopping->best_step(), stopping->stopped_step(),
                               norms->mean(), norms->largest(), norms->spikes(), guard->skipped(), guard->found(),
                               run.averages ? fingerprint(average->weights()) : std::string("none"));
  return left;
}

void check_same(const LeftBehind& left, const LeftBehind& expected) {
  CHECK(left.state == expected.state);
  CHECK(left.checkpoint == expected.checkpoint);
  CHECK(left.table == expected.table);
  CHECK(left.lines == expected.lines);
  CHECK(left.decisions == expected.decisions);
}

/// A run, and the steps behind which it dies.
struct Mortal {
  DrawnRun run;
  std::vector<std::int64_t> dies_at;
};

std::vector<Mortal> drawn_mortals(unsigned seed, int count) {
  std::mt19937 draw(seed);
  std::vector<Mortal> all;
  for (int i = 0; i < count; ++i) {
    all.push_back({drawn_run(draw), {}});
    std::int64_t at = 1;
    for (int part = 0; part < 2; ++part) all.back().dies_at.push_back(at += 1 + static_cast<std::int64_t>(draw() % 10));
  }
  return all;
}

constexpr const char* folder_name = "LOCKSTEP_TEST_FOLDER";
constexpr int launched_runs = 6;

/// All runs on to where they die next, or to their end; each leaves a file with what it has left then.
void go_on_all(const std::filesystem::path& folder, std::size_t part) {
  const std::vector<Mortal> all = drawn_mortals(31, launched_runs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::filesystem::path own = folder / std::to_string(i);
    if (std::filesystem::exists(own / "left")) continue;
    world()->barrier();
    const std::optional<std::int64_t> at =
        part < all[i].dies_at.size() ? std::optional(all[i].dies_at[part]) : std::nullopt;
    const LeftBehind left = go_on(all[i].run, own, 1, at);
    if (!left.state.empty() && world()->rank() == 0) std::ofstream(own / "left") << left.text();
    world()->barrier();
  }
}

}  // namespace

TEST_CASE("drawn runs that die twice and go on with other devices decide and leave what they would have") {
  const char* asked = std::getenv("LOCKSTEP_DRAWN_RUNS");
  const int runs = asked != nullptr ? std::atoi(asked) : 6;
  const char* seed = std::getenv("LOCKSTEP_DRAWN_SEED");
  std::mt19937 draw(7);
  constexpr int devices[] = {1, 2, 4};
  int i = 0;
  for (const auto& [run, dies_at] :
       drawn_mortals(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 5U, runs)) {
    CAPTURE(i++);
    const TemporaryFolder whole, parts;
    const LeftBehind expected = go_on(run, whole.path(), 1, {});
    LeftBehind left;
    for (std::size_t part = 0; part < 3 && left.state.empty(); ++part) {
      const std::optional<std::int64_t> at = part < 2 ? std::optional(dies_at[part]) : std::nullopt;
      left = go_on(run, parts.path(), devices[draw() % 3], at, draw() % 2 == 0);
    }
    check_same(left, expected);
    check_same(go_on(run, parts.path(), 2, {}), expected);  // nothing is left to do
  }
}

TEST_CASE("what launched processes do with drawn runs" * doctest::skip()) {
  go_on_all(std::getenv(folder_name), world()->size() == 2 ? 1 : 2);
}

TEST_CASE("drawn runs that die go on in 2 and then in 4 processes as if one had made them") {
  if (!tests::can_launch()) return tests::skip(tests::no_launcher());
  const TemporaryFolder folder;
  go_on_all(folder.path(), 0);
  for (const int processes : {2, 4}) {
    const std::string output = tests::launched(processes, "what launched processes do with drawn runs",
                                               std::string(folder_name) + "='" + folder.path().string() + "' ");
    CAPTURE(output);
    CHECK(tests::count(output, "SUCCESS") == static_cast<std::size_t>(processes));
  }
  const std::vector<Mortal> all = drawn_mortals(31, launched_runs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const TemporaryFolder whole;
    CHECK(tests::file_text(folder.path() / std::to_string(i) / "left") ==
          go_on(all[i].run, whole.path(), 1, {}).text());
  }
}

TEST_CASE(
    "a longer run goes on from a shorter one that has ended anywhere, with the callbacks' states and the logs of one "
    "run") {
  std::mt19937 draw(13);
  int i = 0;
  for (auto& [run, unused] : drawn_mortals(41, 6)) {
    CAPTURE(i++);
    DrawnRun longer = run;
    longer.epochs = 0;
    longer.most_skips = 10;
    DrawnRun shorter = longer;
    shorter.steps = 1 + static_cast<std::int64_t>(draw() % static_cast<unsigned>(longer.steps - 1));
    const TemporaryFolder whole, parts;
    const LeftBehind expected = go_on(longer, whole.path(), 1, {});
    go_on(shorter, parts.path(), 2, {});
    DrawnRun died = longer;
    died.save_every = 1;  // with a checkpoint that may lie before the next row
    go_on(died, parts.path(), 1, shorter.steps + 2);
    const LeftBehind left = go_on(longer, parts.path(), 1, {});
    CHECK(left.state == expected.state);
    CHECK(left.checkpoint == expected.checkpoint);
    CHECK(left.table == expected.table);
    CHECK(left.lines == expected.lines);
  }
}

TEST_CASE("a callback that a run did not have before begins with the state that it goes on from") {
  const TemporaryFolder folder;
  DrawnRun run{.steps = 5};
  go_on(run, folder.path(), 1, {});
  const Tree before = checkpoint::Manager(folder.path() / "checkpoints").restore(5).tree.at("state/trainable");
  run.steps = 6;
  run.averages = true;
  run.average = {.momentum = 0.75};
  go_on(run, folder.path(), 1, {});
  const Tree after = checkpoint::Manager(folder.path() / "checkpoints").restore(6).tree;
  const auto at = [](const Tree& tree) { return tree.at("w").array(); };
  const Array average = after.at("callbacks").at("averaged_weights trainable").at("w").array();
  CHECK(fingerprint(Tree(average)) == fingerprint(Tree(jit([&](const Array& a, const Array& w) {
          return a * 0.75 + w * (1 - 0.75);
        })(at(before), at(after.at("state/trainable"))))));
}
