#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"
#include "tests/trainer/small_training.h"

using namespace lockstep;

namespace {

/// Writes down what it is called with.
class Diary final : public Callback {
 public:
  void on_step(const StepReport& report, const Tree& state, Requests&) override { note("step", report, state); }
  void on_epoch(const StepReport& report, const Tree& state, Requests&) override { note("epoch", report, state); }
  void on_end(const StepReport& report, const Tree& state, Requests&) override { note("end", report, state); }
  void on_check(const std::vector<std::string>& found) override {
    ++checks;
    findings = found;
  }
  std::vector<std::string> lines;
  std::vector<std::string> findings;
  int checks = 0;

 private:
  void note(const std::string& event, const StepReport& report, const Tree& state) {
    CHECK(report.step == state.at("step").array().item<std::int64_t>());
    CHECK(report.logs.contains("loss"));
    lines.push_back(event + " " + std::to_string(report.step) + " epoch " + std::to_string(report.epoch));
  }
};

template <class T>
data::HostTable table(const std::vector<T>& values, const Shape& shape) {
  data::HostTable made{{dtype_of<T>(), shape, {}}, std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

std::shared_ptr<const data::Dataset> ten_rows() {
  std::vector<float> x;
  std::vector<float> y;
  for (int i = 0; i < 10; ++i) {
    x.insert(x.end(), {static_cast<float>(i) / 10, static_cast<float>(i % 3)});
    y.push_back(static_cast<float>(i % 2));
  }
  return std::make_shared<const data::Dataset>(data::Dataset{table(x, {10, 2}), table(y, {10, 1}), 1});
}

Model<Array, Array> linear() {
  return Model([](Scope& scope, const Array& x) { return dense(scope["head"], x, {.units = 1}); });
}

/// The state after `steps` steps in all, on from a state and a place in the data.
TrainState run_on(TrainState state, data::Position from, const TrainStep& step, const TrainerOptions& options,
                  const std::shared_ptr<Diary>& diary) {
  data::Loader loader(ten_rows(), {.batch = 4, .seed = 1});
  loader.seek(from);
  return fit(step, std::move(state), loader, options, {diary});
}

}  // namespace

TEST_CASE("fit steps, reports as often as asked, at the end of each epoch and at the end") {
  const auto model = linear();
  const TrainStep step = data_parallel(model, tests::loss_of(model), optim::sgd(0.1), tests::parallel({2, 2}));
  const Batch like = tests::regression_batch(4, 2, float32);
  const auto diary = std::make_shared<Diary>();
  const TrainState end = run_on(tests::fresh_state(step, model, like), {}, step,
                                {.steps = 7, .log_every = 3, .check_one_meaning = true}, diary);
  CHECK(end.step.item<std::int64_t>() == 7);
  CHECK(diary->lines == std::vector<std::string>{
                            "step 2 epoch 0", "epoch 2 epoch 0", "step 3 epoch 1", "step 4 epoch 1", "epoch 4 epoch 1",
                            "step 6 epoch 2", "epoch 6 epoch 2", "step 7 epoch 3", "epoch 7 epoch 3", "end 7 epoch 3"});
}

TEST_CASE("fit goes on where a state and a position stand") {
  const auto model = linear();
  const TrainStep step = data_parallel(model, tests::loss_of(model), optim::adam(0.1), tests::parallel({2, 2}));
  const Batch like = tests::regression_batch(4, 2, float32);
  const auto diary = std::make_shared<Diary>();
  const TrainState whole = run_on(tests::fresh_state(step, model, like), {}, step, {.steps = 5}, diary);
  const TrainState half = run_on(tests::fresh_state(step, model, like), {}, step, {.steps = 3}, diary);
  const TrainState rest = run_on(half, {.epoch = 1, .row = 4}, step, {.steps = 5}, diary);
  CHECK(fingerprint(to_tree(rest)) == fingerprint(to_tree(whole)));
}

TEST_CASE("fit saves in the background what it trains on, while a loader's threads make rows") {
  const auto model = linear();
  const TrainStep step = data_parallel(model, tests::loss_of(model), optim::adam(0.1), tests::parallel({2, 2}));
  const TrainState start = tests::fresh_state(step, model, tests::regression_batch(4, 2, float32));
  const auto rows =
      data::map_rows(data::in_memory(*ten_rows()), [](data::Row row, const data::RowKey&) { return row; });
  struct Left {
    std::vector<std::int64_t> steps;
    std::vector<std::string> saved;
    std::string end;
    bool operator==(const Left&) const = default;
  };
  const auto run = [&](int threads, bool background) {
    const tests::TemporaryFolder folder;
    const auto manager = std::make_shared<checkpoint::Manager>(
        folder.path(), checkpoint::ManagerOptions{.keep_last = 3, .background = background});
    data::SourceLoader loader(rows, {.batch = 4, .seed = 1}, {.threads = threads, .ahead = 3});
    Left left;
    left.end = fingerprint(to_tree(fit(step, start, loader, {.steps = 12, .checkpoints = manager, .save_every = 2})));
    manager->wait();
    left.steps = manager->steps();
    for (const std::int64_t saved : left.steps) left.saved.push_back(fingerprint(manager->restore(saved).tree));
    return left;
  };
  const Left expected = run(0, false);
  CHECK(expected.steps == std::vector<std::int64_t>{8, 10, 12});
  CHECK(run(3, true) == expected);
}

TEST_CASE("fit lints the loss where it is asked to check, and tells the callbacks") {
  const Model logs([](Scope& scope, const Array& x) {
    const Array h = dense(scope["head"], x, {.units = 1});
    const NamedScope layer("logs");
    return where(h > 0, log(h), 0);
  });
  const TrainStep step = data_parallel(logs, tests::loss_of(logs), optim::sgd(0.1), tests::parallel({2, 2}));
  const TrainState state = tests::fresh_state(step, logs, tests::regression_batch(4, 2, float32));
  const auto checked = std::make_shared<Diary>();
  run_on(state, {}, step, {.steps = 2, .check_one_meaning = true}, checked);
  CHECK(checked->checks == 1);
  REQUIRE(checked->findings.size() == 1);
  CHECK(tests::contains(checked->findings[0], "select in layer 'logs': log of "));
  const auto unchecked = std::make_shared<Diary>();
  run_on(state, {}, step, {.steps = 2}, unchecked);
  CHECK(unchecked->checks == 0);
}

TEST_CASE(
    "fit checks for one meaning before the first step, and refuses a log_every below 1 and a negative "
    "check_replicas_every") {
  const Model mixing(
      [](Scope& scope, const Array& x) { return dense(scope["head"], x - mean(x, Axes{0}, true), {.units = 1}); });
  const TrainStep step = data_parallel(mixing, tests::loss_of(mixing), optim::sgd(0.1), tests::parallel({2, 2}));
  const TrainState state = tests::fresh_state(step, mixing, tests::regression_batch(4, 2, float32));
  const auto diary = std::make_shared<Diary>();
  tests::expect_error<AggregationError>(
      [&] { static_cast<void>(run_on(state, {}, step, {.steps = 1, .check_one_meaning = true}, diary)); },
      "[check_one_meaning] 'gradient/head/kernel'");
  CHECK(diary->lines.empty());
  tests::expect_error<ValueError>(
      [&] { static_cast<void>(run_on(state, {}, step, {.steps = 1, .log_every = 0}, diary)); }, "log_every is 0");
  tests::expect_error<ValueError>(
      [&] { static_cast<void>(run_on(state, {}, step, {.steps = 1, .check_replicas_every = -1}, diary)); },
      "check_replicas_every is -1", "0 for no check");
}

TEST_CASE("what can never happen is an error before the first step, or after the first where its logs decide") {
  const TrainStep step = tests::line_step();
  const auto run = [&](TrainerOptions options, std::vector<std::shared_ptr<Callback>> callbacks = {}) {
    auto loader = tests::line_loader();
    const auto diary = std::make_shared<Diary>();
    callbacks.push_back(diary);
    fit(step, tests::line_start(step), loader, options, callbacks);
  };
  tests::expect_error<ValueError>([&] { run({}); }, "[fit] steps and epochs are both 0");
  const auto stopping = [](const std::string& monitor) {
    return std::make_shared<callbacks::EarlyStopping>(callbacks::EarlyStoppingOptions{.monitor = monitor});
  };
  const auto plateau = [](const std::string& monitor) {
    return std::make_shared<callbacks::ReduceLROnPlateau>(callbacks::ReduceLROnPlateauOptions{.monitor = monitor});
  };
  const auto best_only = [](const std::string& monitor) {
    return std::make_shared<callbacks::ModelCheckpoint>(
        callbacks::ModelCheckpointOptions{.monitor = monitor, .save_best_only = true});
  };
  for (const auto& make :
       std::vector<std::function<std::shared_ptr<Callback>(const std::string&)>>{stopping, plateau, best_only}) {
    tests::expect_error<ValueError>([&] { run({.steps = 100}, {make("val_loss")}); }, "reads 'val_loss', and the run",
                                    "TrainerOptions::validate");
    tests::expect_error<ValueError>([&] { run({.steps = 100}, {make("lost")}); },
                                    "reads 'lost', which no step logs; a step logs ", "loss");
  }
  run({.steps = 2}, {stopping("loss")});
  const tests::TemporaryFolder folder;
  const auto keeping = [&](const std::string& metric) {
    return std::make_shared<checkpoint::Manager>(folder.path(),
                                                 checkpoint::ManagerOptions{.keep_best = 2, .best_metric = metric});
  };
  tests::expect_error<ValueError>([&] { run({.steps = 100, .checkpoints = keeping("val_loss")}); },
                                  "keep_best of the checkpoints reads 'val_loss'");
  tests::expect_error<ValueError>([&] { run({.steps = 100, .checkpoints = keeping("lost")}); },
                                  "keep_best of the checkpoints reads 'lost'");
  CHECK(!std::filesystem::exists(folder.path() / "step-1"));
  run({.steps = 2, .checkpoints = keeping("loss")});
}

TEST_CASE("a resume without a manifest knows the shards, the batch and the order of its rows") {
  const tests::TemporaryFolder folder;
  const auto run = [&](std::int64_t shards, std::int64_t batch, std::uint64_t seed, std::int64_t steps,
                       std::vector<std::string> accepted = {}) {
    const TrainStep step =
        data_parallel(StepLoss(tests::line_loss), optim::sgd(0.1), {.devices = devices("cpu:0-1"), .shards = shards});
    data::TreeLoader loader(Batch{ones({16, 3}), ones({16, 1}), ones({16})}, {.batch = batch, .seed = seed});
    fit(step, tests::line_start(step), loader,
        {.steps = steps,
         .checkpoints = std::make_shared<checkpoint::Manager>(folder.path()),
         .resume = true,
         .accept_changes = std::move(accepted)});
  };
  run(4, 8, 1, 2);
  run(4, 8, 1, 3);
  tests::expect_error<CheckpointError>([&] { run(2, 8, 1, 4); }, "'shards' was '4' when the run was saved and is '2'");
  tests::expect_error<CheckpointError>([&] { run(4, 4, 1, 4); }, "'batch' was '8' when the run was saved and is '4'");
  tests::expect_error<CheckpointError>([&] { run(4, 8, 2, 4); }, "'seed' was '1' when the run was saved and is '2'");
  run(2, 8, 1, 4, {"shards"});
}

TEST_CASE("a validation sees the averaged weights of its own step") {
  const TrainStep step = tests::line_step();
  auto loader = tests::line_loader();
  const auto average = std::make_shared<callbacks::AveragedWeights>(callbacks::AveragedWeightsOptions{.momentum = 0.0});
  int validations = 0;
  fit(step, tests::line_start(step), loader,
      {.steps = 6,
       .validate =
           [&](const Tree& state) {
             // Without momentum the average is the weights themselves.
             CHECK(fingerprint(average->weights()) == fingerprint(state.at("trainable")));
             ++validations;
             return std::map<std::string, double>{{"loss", 0}};
           },
       .validate_every = 2},
      {average});
  CHECK(validations == 3);
}
