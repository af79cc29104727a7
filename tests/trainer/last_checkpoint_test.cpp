#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/small_training.h"

// What is saved at a run's end whose last step is saved already.

using namespace lockstep;
using tests::expect_error;
using tests::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

std::shared_ptr<checkpoint::Manager> manager_below(const fs::path& run) {
  return std::make_shared<checkpoint::Manager>(run / "checkpoints");
}

struct SkippedRun {
  TrainState state;
  std::int64_t skipped = 0;
  std::size_t traces = 0;
};

/// Good batches, so many, and then bad ones without an end; ended by its skips.
SkippedRun skipping_run(const fs::path& run, int good, std::int64_t most_skips, std::int64_t save_every = 1) {
  const TrainStep step = tests::line_step();
  const Batch batch = tests::line_loader().next<Batch>();
  Batch bad = batch;
  bad.x = bad.x * std::numeric_limits<float>::quiet_NaN();
  int at = 0;
  const auto batches = [&]() -> std::optional<Batch> { return at++ < good ? batch : bad; };
  const auto guard = std::make_shared<callbacks::NanGuard>(
      callbacks::NanGuardOptions{.action = callbacks::OnNan::skip, .most_skips = most_skips});
  TrainState state = fit(step, tests::line_start(step), batches,
                         {.steps = 50,
                          .validate = tests::line_validation,
                          .validate_every = 2,
                          .checkpoints = manager_below(run),
                          .save_every = save_every,
                          .resume = true},
                         {guard, std::make_shared<callbacks::CsvLogger>(run / "metrics.csv")});
  return {std::move(state), guard->skipped(), step.traces()};
}

std::string saved(const fs::path& run) {
  return fingerprint(manager_below(run)->restore(checkpoint::Choice::latest).tree);
}

}  // namespace

TEST_CASE("a run that its skips have ended behind a saved step is over when it is resumed, and goes on with more") {
  const TemporaryFolder folder, longer;
  const SkippedRun first = skipping_run(folder.path(), 4, 3);
  CHECK(first.state.step.item<std::int64_t>() == 4);
  CHECK(first.skipped == 4);
  CHECK(manager_below(folder.path())->steps() == std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK(manager_below(folder.path())
            ->metrics(4)
            .contains("val_loss"));  // of the checkpoint that this one took the place of
  const auto at = manager_below(folder.path())->restore(checkpoint::Choice::latest).tree.at("data/row").array();
  CHECK(at.item<std::int64_t>() == 8);  // behind the four that were left out
  const std::string last = saved(folder.path()), table = tests::file_text(folder.path() / "metrics.csv");
  const SkippedRun again = skipping_run(folder.path(), 4, 3);
  CHECK(again.traces == 0);  // no step was made
  CHECK(again.skipped == 4);
  CHECK(fingerprint(to_tree(again.state)) == fingerprint(to_tree(first.state)));
  CHECK(saved(folder.path()) == last);
  CHECK(tests::file_text(folder.path() / "metrics.csv") == table);
  CHECK(skipping_run(folder.path(), 4, 6).skipped == 7);
  CHECK(skipping_run(longer.path(), 4, 6, 100).skipped == 7);
  CHECK(saved(folder.path()) == saved(longer.path()));
}

TEST_CASE("what launched processes save last" * doctest::skip()) {
  const fs::path run = std::getenv("LOCKSTEP_TEST_FOLDER");
  const SkippedRun first = skipping_run(run, 4, 3);
  const SkippedRun again = skipping_run(run, 4, 3);
  CHECK(again.traces == 0);
  CHECK(again.skipped == 4);
  CHECK(fingerprint(to_tree(again.state)) == fingerprint(to_tree(first.state)));
  const TrainStep step = tests::line_step();
  const auto none = []() -> std::optional<Batch> { return std::nullopt; };
  fit(step, again.state, none, {.steps = 9, .checkpoints = manager_below(run)});  // there already, and the same
  TrainState other = again.state;
  other.trainable = map([](const Array& a) { return a + 1; }, other.trainable);
  expect_error<CheckpointError>([&] { fit(step, other, none, {.steps = 9, .checkpoints = manager_below(run)}); },
                                "with another state than this run has at that step");
  if (world()->rank() == 0) std::printf("saved by %d.\n", world()->size());
}

TEST_CASE("two processes save last what one does") {
  if (!tests::can_launch()) return tests::skip(tests::no_launcher());
  const TemporaryFolder alone, together;
  skipping_run(alone.path(), 4, 3);
  const std::string output = tests::launched(2, "what launched processes save last",
                                             "LOCKSTEP_TEST_FOLDER='" + together.path().string() + "' ");
  CAPTURE(output);
  CHECK(tests::count(output, "saved by 2.") == 1);
  CHECK(tests::count(output, "FAILURE") == 0);
  CHECK(saved(together.path()) == saved(alone.path()));
}

TEST_CASE("weights that take the last ones' place at the end are saved, where that step was saved before") {
  const auto run = [](const TemporaryFolder& folder, std::int64_t save_every) {
    const TrainStep step = tests::line_step();
    const Batch batch = tests::line_loader().next<Batch>();
    int at = 0;
    // The end comes as a surprise: the run would make more steps.
    const auto batches = [&]() -> std::optional<Batch> { return at++ < 4 ? std::optional(batch) : std::nullopt; };
    const TrainState state = fit(step, tests::line_start(step), batches,
                                 {.steps = 9,
                                  .validate = tests::line_validation,
                                  .validate_every = 1,
                                  .checkpoints = manager_below(folder.path()),
                                  .save_every = save_every,
                                  .resume = true},
                                 {std::make_shared<callbacks::EarlyStopping>(callbacks::EarlyStoppingOptions{
                                     .min_delta = 100, .patience = 50, .restore_best_weights = true})});
    CHECK(fingerprint(manager_below(folder.path())->restore(checkpoint::Choice::latest).tree.at("state")) ==
          fingerprint(to_tree(state)));
    return fingerprint(to_tree(state));
  };
  const TemporaryFolder each, none;
  const std::string expected = run(none, 100);
  CHECK(run(each, 1) == expected);
  CHECK(saved(each.path()) == saved(none.path()));
  const auto written = fs::last_write_time(each.path() / "checkpoints" / "step-4");
  CHECK(run(each, 1) == expected);  // put back, and then again in their place
  CHECK(fs::last_write_time(each.path() / "checkpoints" / "step-4") == written);
}

// Keras' fit of no epochs does nothing; Orbax' CheckpointManager.save of its latest step gives False and writes nothing.
TEST_CASE("a fit that makes no step leaves the checkpoint of its state, and refuses that of another one") {
  const TemporaryFolder folder;
  const TrainStep step = tests::line_step();
  auto loader = tests::line_loader();
  const auto fitted = [&](TrainState state, auto&& batches, std::int64_t steps) {
    return fit(step, std::move(state), batches, {.steps = steps, .checkpoints = manager_below(folder.path())});
  };
  const auto empty = []() -> std::optional<Batch> { return std::nullopt; };
  const TrainState begun = fitted(tests::line_start(step), empty, 9);
  CHECK(manager_below(folder.path())->steps() == std::vector<std::int64_t>{0});
  fitted(begun, empty, 9);
  const TrainState state = fitted(begun, loader, 3);
  const std::string last = saved(folder.path());
  const auto written = fs::last_write_time(folder.path() / "checkpoints" / "step-3");
  CHECK(fingerprint(to_tree(fitted(state, loader, 3))) == fingerprint(to_tree(state)));
  CHECK(fingerprint(to_tree(fitted(state, empty, 9))) == fingerprint(to_tree(state)));
  CHECK(manager_below(folder.path())->steps() == std::vector<std::int64_t>{0, 3});
  CHECK(saved(folder.path()) == last);
  CHECK(fs::last_write_time(folder.path() / "checkpoints" / "step-3") == written);
  TrainState other = state;
  other.trainable = map([](const Array& a) { return a + 1; }, state.trainable);
  expect_error<CheckpointError>([&] { fitted(other, loader, 3); }, "[fit] ",
                                "step-3 is there already, with another state than this run has at that step",
                                "TrainerOptions::resume");
  CHECK(saved(folder.path()) == last);
  CHECK(fitted(state, loader, 5).step.item<std::int64_t>() == 5);
}
