#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/forked.h"
#include "tests/support/non_finite.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/event_records.h"
#include "tests/trainer/small_training.h"

// Callbacks that meet: with others of their kind, with options of the step, with a second fit.

using namespace lockstep;
using tests::expect_error;
using tests::file_text;
using tests::float_not_a_number;
using tests::TemporaryFolder;

namespace {

/// Validation with losses that are given, each time the next one.
std::function<std::map<std::string, double>(const Tree&)> losses_of(std::vector<double> losses) {
  auto next = std::make_shared<std::size_t>(0);
  return [losses = std::move(losses), next](const Tree&) {
    return std::map<std::string, double>{{"loss", losses.at((*next)++)}};
  };
}

/// All scalars of a folder of events as TensorBoard has them: files by name, and a session's start takes away what
/// stands at its step and behind it (tensorboard/backend/event_processing/event_accumulator.py, _Purge).
std::map<std::string, std::map<std::int64_t, float>> scalars_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::map<std::string, std::map<std::int64_t, float>> scalars;
  for (const auto& file : files) {
    for (const tests::EventRecord& record : tests::event_records(file)) {
      if (record.session_status == 1) {
        for (auto& [tag, values] : scalars) values.erase(values.lower_bound(record.step), values.end());
      }
      if (!record.tag.empty()) scalars[record.tag][record.step] = record.value;
    }
  }
  std::erase_if(scalars, [](const auto& tag) { return tag.second.empty(); });
  return scalars;
}

/// A step whose gradients overflow at its first scales: 2^127 is the largest power of two of float32.
TrainStep scaled_step(const LossScale& scale) {
  return data_parallel(StepLoss(tests::line_loss), tests::adam_in_state(),
                       {.devices = devices("cpu:0"), .shards = 4, .loss_scale = scale});
}

constexpr LossScale too_large = {.initial = 0x1p126, .maximum = 0x1p126};

}  // namespace

TEST_CASE("the guard against NaN leaves to a loss scale what that answers, and nothing else") {
  const TrainStep step = scaled_step(too_large);
  const auto trained = [&](callbacks::OnNan action, std::shared_ptr<callbacks::NanGuard>& guard) {
    auto loader = tests::line_loader();
    guard = std::make_shared<callbacks::NanGuard>(callbacks::NanGuardOptions{.action = action, .most_skips = 2});
    return fit(step, tests::line_start(step), loader, {.steps = 12}, {guard});
  };
  auto loader = tests::line_loader();
  std::shared_ptr<callbacks::NanGuard> guard;
  const TrainState expected = fit(step, tests::line_start(step), loader, {.steps = 12});
  REQUIRE(expected.loss_scale.at("scale").array().item<double>() < 0x1p126);  // it has overflowed
  for (const auto action : {callbacks::OnNan::stop, callbacks::OnNan::skip, callbacks::OnNan::report}) {
    CHECK(fingerprint(to_tree(trained(action, guard))) == fingerprint(to_tree(expected)));
    CHECK(guard->found() == 0);
  }
  // A scale that cannot fall answers once, and a loss that is NaN is none of its concerns.
  const TrainStep stuck = scaled_step({.initial = 0x1p126, .minimum = 0x1p126, .maximum = 0x1p126});
  auto rows = tests::line_loader();
  guard = std::make_shared<callbacks::NanGuard>();
  std::vector<Batch> same = {rows.next<Batch>()};
  same[0].y = 1000.0F * same[0].y;
  CHECK(fit(stuck, tests::line_start(stuck), same, {.steps = 9}, {guard}).step.item<std::int64_t>() == 2);
  CHECK(guard->found() == 1);
  std::vector<Batch> bad = same;
  bad[0].x = bad[0].x * float_not_a_number;
  guard = std::make_shared<callbacks::NanGuard>();
  CHECK(fit(step, tests::line_start(step), bad, {.steps = 9}, {guard}).step.item<std::int64_t>() == 1);
}

TEST_CASE("a norm that is not finite is a spike and hides none behind it") {
  callbacks::GradientNorms norms({.window = 2, .spike = 3});
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> each = {1, inf, 2, std::nan(""), 9, 1, 9};
  for (std::size_t i = 0; i < each.size(); ++i) {
    Requests requests;
    norms.on_step({.step = static_cast<std::int64_t>(i) + 1, .logs = {{"grad_norm", each[i]}}}, Tree(), requests);
  }
  CHECK(norms.spikes() == std::vector<std::int64_t>{2, 4, 5});  // 9 > 3 * 1.5; the last 9 < 3 * 5
  CHECK(norms.mean() == 5);
  CHECK(norms.largest() == 9);
}

// As Keras', whose EarlyStopping and ReduceLROnPlateau begin anew in on_train_begin.
TEST_CASE("callbacks that have watched one fit begin anew with the next one") {
  const TrainStep step = tests::line_step();
  const auto stopping = std::make_shared<callbacks::EarlyStopping>(
      callbacks::EarlyStoppingOptions{.patience = 1, .restore_best_weights = true});
  const auto plateau =
      std::make_shared<callbacks::ReduceLROnPlateau>(callbacks::ReduceLROnPlateauOptions{.factor = 0.5, .patience = 2});
  const auto guard =
      std::make_shared<callbacks::NanGuard>(callbacks::NanGuardOptions{.action = callbacks::OnNan::skip});
  const auto norms = std::make_shared<callbacks::GradientNorms>(callbacks::GradientNormsOptions{.window = 50});
  const auto average = std::make_shared<callbacks::AveragedWeights>();
  const auto trained = [&](std::vector<double> losses, const detail::Callbacks& callbacks) {
    auto loader = tests::line_loader();
    return fit(step, tests::line_start(step), loader,
               {.steps = 10, .validate = losses_of(std::move(losses)), .validate_every = 2}, callbacks);
  };
  const detail::Callbacks all = {stopping, plateau, guard, norms, average};
  CHECK(trained({1, 2, 3, 4, 5}, all).step.item<std::int64_t>() == 4);
  CHECK(stopping->best_step() == 2);
  const double mean = norms->mean();
  // Worse than all that was before, yet better each time; nothing of the first fit's may come back.
  const TrainState second = trained({9, 8, 7, 6, 5}, all);
  CHECK(fingerprint(to_tree(second)) == fingerprint(to_tree(trained({9, 8, 7, 6, 5}, {}))));
  CHECK(stopping->best_step() == 10);
  CHECK(stopping->stopped_step() == 0);
  CHECK(norms->mean() != mean);
  const Tree alone = average->weights();
  const auto other = std::make_shared<callbacks::AveragedWeights>();
  trained({9, 8, 7, 6, 5}, {other});
  CHECK(fingerprint(alone) == fingerprint(other->weights()));
}

TEST_CASE("an average goes on in a fit that begins where the last one has ended") {
  const TrainStep step = tests::line_step();
  const auto parts = std::make_shared<callbacks::AveragedWeights>();
  const auto whole = std::make_shared<callbacks::AveragedWeights>();
  auto loader = tests::line_loader(), same = tests::line_loader();
  TrainState state = tests::line_start(step);
  for (const std::int64_t steps : {3, 4, 9}) state = fit(step, std::move(state), loader, {.steps = steps}, {parts});
  fit(step, tests::line_start(step), same, {.steps = 9}, {whole});
  CHECK(fingerprint(parts->weights()) == fingerprint(whole->weights()));
}

TEST_CASE("an average that a fit ended by an error has added to begins anew") {
  const TrainStep step = tests::line_step();
  const auto average = std::make_shared<callbacks::AveragedWeights>(),
             alone = std::make_shared<callbacks::AveragedWeights>();
  const auto begun = [&](const detail::Callbacks& callbacks) {
    auto loader = tests::line_loader();
    return fit(step, tests::line_start(step), loader, {.steps = 4}, callbacks);
  };
  const auto go_on = [&](TrainState state, const std::shared_ptr<callbacks::AveragedWeights>& callback,
                         std::vector<double> losses) {
    auto loader = tests::line_loader();
    fit(step, std::move(state), loader, {.steps = 8, .validate = losses_of(std::move(losses)), .validate_every = 2},
        {callback});
  };
  CHECK_THROWS_AS(go_on(begun({average}), average, {1}), std::out_of_range);  // at its second validation, in step 8
  go_on(begun({}), average, {2, 1});
  go_on(begun({}), alone, {2, 1});
  CHECK(fingerprint(average->weights()) == fingerprint(alone->weights()));
}

TEST_CASE("two callbacks of a kind have two names, and one that keeps nothing needs none") {
  const TemporaryFolder folder;
  const TrainStep step = tests::line_step();
  const auto run = [&](std::int64_t steps, double& slow, double& fast) {
    const auto a = std::make_shared<callbacks::AveragedWeights>(callbacks::AveragedWeightsOptions{.momentum = 0.9});
    const auto b = std::make_shared<callbacks::AveragedWeights>(
        callbacks::AveragedWeightsOptions{.momentum = 0.5, .name = "fast average"});
    auto loader = tests::line_loader();
    fit(step, tests::line_start(step), loader,
        {.steps = steps,
         .validate = tests::line_validation,
         .checkpoints = std::make_shared<checkpoint::Manager>(folder.path() / "checkpoints"),
         .resume = true},
        {a, b, std::make_shared<callbacks::ModelCheckpoint>(callbacks::ModelCheckpointOptions{.save_freq = 3}),
         std::make_shared<callbacks::ModelCheckpoint>(callbacks::ModelCheckpointOptions{.save_best_only = true})});
    slow = a->weights().at("b").array().item<double>();
    fast = b->weights().at("b").array().item<double>();
  };
  double slow = 0, fast = 0, again_slow = 0, again_fast = 0;
  run(7, slow, fast);
  CHECK(slow != fast);
  run(7, again_slow, again_fast);
  CHECK(slow == again_slow);
  CHECK(fast == again_fast);
}

TEST_CASE("one file has one logger, and a logger no steps below 0") {
  const TemporaryFolder folder;
  const TrainStep step = tests::line_step();
  auto loader = tests::line_loader();
  const auto file = folder.path() / "metrics.csv";
  std::ofstream(file) << "step,epoch\n1,0\n";
  std::ostringstream out;
  const auto one = std::make_shared<callbacks::CsvLogger>(file), two = std::make_shared<callbacks::CsvLogger>(file);
  expect_error<CheckpointError>(
      [&] {
        fit(step, tests::line_start(step), loader, {.steps = 2}, {one, two});
      },
      "metrics.csv is written by another callback or process");
  fit(step, tests::line_start(step), loader, {.steps = 2}, {two});
  const std::string table = file_text(file);
  CHECK(std::count(table.begin(), table.end(), '\n') == 3);
  expect_error<ValueError>([&] { callbacks::CsvLogger(file, {.every = -1}); }, "[csv_logger] every is -1");
  expect_error<ValueError>([&] { callbacks::BitTrace(file, -1); }, "[bit_trace] every is -1");
  expect_error<ValueError>([&] { callbacks::ProgressBar(out, {.every = -1}); }, "[progress_bar] every is -1");
}

TEST_CASE("a child that lives on holds no file of a run that is over, and one that ends takes no lock away") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.csv";
  const auto begun = [&] {
    auto logger = std::make_unique<callbacks::CsvLogger>(file);
    logger->on_begin({.step = 0}, Tree());
    return logger;
  };
  auto logger = begun();
  CHECK(tests::forked([&] {
          logger->close();
          return 0;
        }) == 0);
  expect_error<CheckpointError>(begun, "metrics.csv is written by another callback or process");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  logger->close();
  CHECK_NOTHROW(begun());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("logs named as a line's own entries do not take their place") {
  const TemporaryFolder folder;
  const auto step = [](double state, const Array&) {
    return std::pair(state, std::map<std::string, double>{{"step", 70}, {"epoch", 80}, {"loss", 1}});
  };
  const std::vector<Array> batches(3, ones({2}));
  fit(step, 0.0, batches, {.steps = 2}, {std::make_shared<callbacks::JsonLinesLogger>(folder.path() / "lines")});
  CHECK(file_text(folder.path() / "lines") ==
        "{\"epoch\":0,\"loss\":1.0,\"step\":1}\n{\"epoch\":0,\"loss\":1.0,\"step\":2}\n");
}

TEST_CASE("of a run whose first epoch is left out whole, its logs are told") {
  const TrainStep step = tests::line_step();
  auto rows = tests::line_loader();
  std::vector<Batch> batches = {rows.next<Batch>()};
  batches[0].x = batches[0].x * float_not_a_number;
  const auto stopping =
      std::make_shared<callbacks::EarlyStopping>(callbacks::EarlyStoppingOptions{.monitor = "loss", .patience = 5});
  const auto guard = std::make_shared<callbacks::NanGuard>(
      callbacks::NanGuardOptions{.action = callbacks::OnNan::skip, .most_skips = 1});
  CHECK(fit(step, tests::line_start(step), batches, {.steps = 4}, {guard, stopping}).step.item<std::int64_t>() == 0);
  CHECK(guard->skipped() == 2);
  CHECK(std::isnan(stopping->best()));
}

TEST_CASE("a training's own loader may be evaluated before it, in it and behind it") {
  const TrainStep step = tests::line_step();
  const EvaluateStep evaluation(StepLoss(tests::line_loss), {.devices = devices("cpu:0"), .shards = 4});
  auto alone = tests::line_loader();
  const TrainState expected = fit(step, tests::line_start(step), alone, {.epochs = 3});
  const auto holds = [&](auto& loader) {
    TrainState state = tests::line_start(step);
    evaluate(evaluation, state, loader);
    state = fit(step, std::move(state), loader,
                {.epochs = 3,
                 .validate = [&](const Tree& now) { return evaluate(evaluation, now, loader); },
                 .validate_every = 2});
    CHECK(fingerprint(to_tree(state)) == fingerprint(to_tree(expected)));
    const data::Position end = loader.position();
    predict([](const Batch& batch) { return batch.y; }, loader);
    CHECK(loader.position() == end);
  };
  auto trees = tests::line_loader();
  holds(trees);
  const Array x = random::normal(random::key(1), {20, 3});
  const Array y =
      matmul(x, array(std::vector<float>{1, -2, 0.5F}, {3, 1})) + 0.1F * random::normal(random::key(2), {20, 1});
  for (const int threads : {0, 2}) {
    data::SourceLoader sources(data::in_memory(to_tree(Batch{x, y, ones({20})})),
                               {.batch = 4, .seed = 3, .drop_last = false}, {.threads = threads});
    holds(sources);
  }
}

TEST_CASE("TensorBoard shows of a run in parts what one without interruption shows") {
  const auto run = [](const std::filesystem::path& folder, std::int64_t steps, std::int64_t every) {
    const TrainStep step = tests::line_step();
    auto loader = tests::line_loader();
    fit(step, tests::line_start(step), loader,
        {.steps = steps,
         .validate = tests::line_validation,
         .checkpoints = std::make_shared<checkpoint::Manager>(folder / "checkpoints"),
         .resume = true},
        {std::make_shared<callbacks::TensorBoard>(folder / "events", every),
         std::make_shared<callbacks::CsvLogger>(folder / "metrics.csv", callbacks::CsvLoggerOptions{.every = 9})});
  };
  for (const std::int64_t every : {1, 2}) {
    CAPTURE(every);
    const TemporaryFolder whole, parts;
    run(whole.path(), 9, every);
    // Each ends within an epoch.
    for (const std::int64_t steps : {1, 2, 3, 4, 6, 7}) {
      run(parts.path(), steps, every);
      if (steps > 1) continue;
      const std::filesystem::path first = std::filesystem::directory_iterator(parts.path() / "events")->path();
      std::string name = first.filename().string();
      name.replace(std::string("events.out.tfevents.").size(), 10, "4000000000");  // of a clock that was ahead
      std::filesystem::rename(first, first.parent_path() / name);
    }
    run(parts.path(), 9, every);
    CHECK(scalars_of(parts.path() / "events") == scalars_of(whole.path() / "events"));
    CHECK(file_text(parts.path() / "metrics.csv") == file_text(whole.path() / "metrics.csv"));
  }
}

TEST_CASE("a table without rows has no header either, where a run ends before its first row") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.csv";
  std::ofstream(file) << "step,epoch,loss\n3,0,1\n";
  callbacks::CsvLogger table(file);
  table.on_begin({.step = 2}, Tree());
  table.close();
  CHECK(file_text(file).empty());
}
