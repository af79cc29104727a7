#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/small_training.h"

using namespace lockstep;
using tests::expect_error;
using tests::line_loader;
using tests::line_start;
using tests::line_step;

namespace {

using Event = std::function<void(const StepReport&, const Tree&, Requests&)>;

/// Calls a function behind each step; notes the end.
class Each final : public Callback {
 public:
  explicit Each(Event event) : event_(std::move(event)) {}
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override {
    if (event_) event_(report, state, requests);
    last = report;
  }
  void on_end(const StepReport& report, const Tree&, Requests&) override { last = report; }
  void close() override { ++closed; }
  StepReport last;
  int closed = 0;

 private:
  Event event_;
};

struct RequestedRun {
  TrainState state;
  std::shared_ptr<Each> each;
};

RequestedRun run_with(TrainerOptions options, const Event& event, detail::Callbacks more = {}) {
  const TrainStep step = line_step();
  auto loader = line_loader();
  const auto each = std::make_shared<Each>(event);
  more.push_back(each);
  TrainState state = fit(step, line_start(step), loader, options, more);
  CHECK(step.traces() == 1);
  return {std::move(state), each};
}

}  // namespace

TEST_CASE("a callback stops a run, saves, and sees why it ended") {
  const tests::TemporaryFolder folder;
  const auto manager = std::make_shared<checkpoint::Manager>(folder.path());
  const RequestedRun ended = run_with({.steps = 20, .checkpoints = manager, .save_every = 100},
                                      [](const StepReport& report, const Tree&, Requests& requests) {
                                        if (report.step == 2) requests.save();
                                        if (report.step == 7) requests.stop("it is enough");
                                      });
  CHECK(ended.state.step.item<std::int64_t>() == 7);
  CHECK(ended.each->last.stop_reason == "it is enough");
  CHECK(manager->steps() == std::vector<std::int64_t>{2, 7});
  CHECK(manager->metrics(2).contains("grad_norm"));
  const tests::TemporaryFolder other;
  const auto broken = std::make_shared<checkpoint::Manager>(other.path());
  const RequestedRun unsaved = run_with({.steps = 20, .checkpoints = broken, .save_every = 100},
                                        [](const StepReport& report, const Tree&, Requests& requests) {
                                          if (report.step == 9) requests.stop("broken", false);
                                        });
  CHECK(broken->steps().empty());
  expect_error<CheckpointError>([&] { run_with({.steps = 20, .checkpoints = manager}, {}); },
                                "step-7 is there already, and the run begins at step 0; set TrainerOptions::resume");
  expect_error<ValueError>(
      [] { run_with({.steps = 2}, [](const StepReport&, const Tree&, Requests& requests) { requests.save(); }); },
      "TrainerOptions::checkpoints");
}

TEST_CASE("a learning rate that stands in the state is changed without a new trace") {
  std::vector<double> rates;
  const RequestedRun ended =
      run_with({.steps = 4}, [&](const StepReport& report, const Tree& state, Requests& requests) {
        rates.push_back(hyperparameters(state).at("learning_rate"));
        if (report.step == 2) requests.set_hyperparameter("learning_rate", 0.0);
      });
  CHECK(rates == std::vector<double>{0.1, 0.1, 0, 0});
  const RequestedRun two = run_with({.steps = 2}, {});
  CHECK(fingerprint(ended.state.trainable) == fingerprint(two.state.trainable));  // with rate 0 nothing moves
  expect_error<StateError>(
      [] {
        run_with({.steps = 2},
                 [](const StepReport&, const Tree&, Requests& r) { r.set_hyperparameter("momentum", 1); });
      },
      "hyper-parameter 'momentum', and the state has 'learning_rate'", "inject_hyperparams");
}

TEST_CASE("leaves are replaced by others of the same types only") {
  const RequestedRun ended =
      run_with({.steps = 3}, [](const StepReport& report, const Tree& state, Requests& requests) {
        if (report.step == 3)
          requests.replace("trainable", map([](const Array& a) { return a * 0; }, state.at("trainable")));
      });
  CHECK(ended.state.trainable.at("b").array().item<float>() == 0);
  const auto replacing = [](const std::string& path, const Tree& value) {
    run_with({.steps = 1}, [&](const StepReport&, const Tree&, Requests& requests) { requests.replace(path, value); });
  };
  expect_error<StateError>([&] { replacing("ema", Tree(array(1.0F))); }, "replace 'ema', which the state has not");
  expect_error<StateError>([&] { replacing("trainable", Tree::dict({{"w", Tree(ones({3, 1}))}})); }, "'trainable'");
  expect_error<StateError>([&] { replacing("trainable/b", Tree(ones({2}))); }, "in place of 'trainable/b'");
}

TEST_CASE("what a callback throws ends the run, and all are closed") {
  const auto other = std::make_shared<Each>(Event());
  std::shared_ptr<Each> each;
  const auto failing = [&] {
    const TrainStep step = line_step();
    auto loader = line_loader();
    each = std::make_shared<Each>([](const StepReport& report, const Tree&, Requests&) {
      if (report.step == 3) throw std::runtime_error("the callback's own text");
    });
    fit(step, line_start(step), loader, {.steps = 9}, {each, other});
  };
  expect_error<std::runtime_error>(failing, "the callback's own text");
  CHECK(each->closed == 1);
  CHECK(other->closed == 1);
  CHECK(other->last.step == 2);
  run_with({.steps = 1}, {}, {other});
  CHECK(other->closed == 2);
  struct Unclosable final : Callback {
    void close() override { throw std::runtime_error("cannot close"); }
  };
  expect_error<std::runtime_error>(
      [&] {
        run_with({.steps = 1}, {}, {std::make_shared<Unclosable>(), other});
      },
      "cannot close");
  CHECK(other->closed == 3);
}

TEST_CASE("validation each epoch or some steps is in the logs and chooses the best checkpoint") {
  const tests::TemporaryFolder folder;
  const auto manager = std::make_shared<checkpoint::Manager>(folder.path(), checkpoint::ManagerOptions{.keep_best = 2});
  std::map<std::int64_t, double> losses;
  const auto note = [&](const StepReport& report, const Tree& state, Requests&) {
    if (report.logs.contains("val_loss")) {
      losses[report.step] = report.logs.at("val_loss");
      CHECK(losses[report.step] == tests::line_validation(state).at("loss"));
    }
  };
  run_with({.steps = 12, .validate = tests::line_validation, .checkpoints = manager}, note);
  CHECK(losses.size() == 3);  // epochs of 5 steps
  CHECK(losses.contains(12));
  CHECK(manager->steps().size() == 2);
  CHECK(manager->metrics(*manager->best()).at("val_loss") == std::min({losses[5], losses[10], losses[12]}));
  losses.clear();
  run_with({.steps = 7, .validate = tests::line_validation, .validate_every = 3}, note);
  CHECK(losses.size() == 2);
  CHECK(losses.contains(6));
}

TEST_CASE("early stopping, plateaus and best checkpoints in a run, by what is validated") {
  const tests::TemporaryFolder folder;
  const auto manager = std::make_shared<checkpoint::Manager>(folder.path());
  const auto stopping = std::make_shared<callbacks::EarlyStopping>(
      callbacks::EarlyStoppingOptions{.patience = 2, .restore_best_weights = true});
  const auto best =
      std::make_shared<callbacks::ModelCheckpoint>(callbacks::ModelCheckpointOptions{.save_best_only = true});
  const auto plateau =
      std::make_shared<callbacks::ReduceLROnPlateau>(callbacks::ReduceLROnPlateauOptions{.factor = 0.5, .patience = 1});
  int looks = 0;
  const auto validation = [&](const Tree&) {
    const std::vector<double> losses = {5, 4, 6, 7, 8};
    return std::map<std::string, double>{{"loss", losses.at(static_cast<std::size_t>(looks++))}};
  };
  Tree second;
  const RequestedRun ended =
      run_with({.steps = 100, .validate = validation, .validate_every = 3, .checkpoints = manager, .save_every = 1000},
               [&](const StepReport& report, const Tree& state, Requests&) {
                 if (report.step == 6) second = state.at("trainable");
               },
               {stopping, best, plateau});
  CHECK(looks == 4);
  CHECK(ended.state.step.item<std::int64_t>() == 12);
  CHECK(stopping->best_step() == 6);
  CHECK(stopping->stopped_step() == 12);
  CHECK(tests::contains(ended.each->last.stop_reason, "val_loss has not improved on 4 since step 6"));
  CHECK(fingerprint(ended.state.trainable) == fingerprint(second));
  CHECK(hyperparameters(to_tree(ended.state)).at("learning_rate") == 0.025);
  CHECK(manager->steps() == std::vector<std::int64_t>{3, 6, 12});
  const Tree saved = manager->restore(12).tree;
  CHECK(fingerprint(saved.at("state/trainable")) == fingerprint(second));
  expect_error<StateError>(
      [&] {
        run_with({.steps = 9, .validate = validation, .validate_every = 1}, {},
                 {std::make_shared<callbacks::EarlyStopping>(callbacks::EarlyStoppingOptions{.monitor = "val_lost"})});
      },
      "the run logs no 'val_lost'; it logs grad_norm, loss, val_loss");
  expect_error<ValueError>([] { callbacks::EarlyStopping({.patience = -1}); }, "patience is -1");
  expect_error<ValueError>([] { callbacks::ReduceLROnPlateau({.factor = 1}); }, "factor is 1");
  expect_error<ValueError>([] { callbacks::ModelCheckpoint({.save_freq = -2}); }, "save_freq is -2");
  const auto fails = [](const StepReport&, const Tree&, Requests&) { FAIL("a step was made"); };
  expect_error<ValueError>(
      [&] {
        const auto others = std::make_shared<checkpoint::Manager>(folder.path() / "others");
        run_with(
            {.steps = 9, .checkpoints = others}, fails,
            {stopping, std::make_shared<callbacks::EarlyStopping>(callbacks::EarlyStoppingOptions{.patience = 5})});
      },
      "two callbacks are named 'early_stopping val_loss'", "another name in its options");
  expect_error<ValueError>(
      [&] {
        run_with({.steps = 1}, fails, {stopping, best, stopping});
      },
      "callback 2 is callback 0 once more");
}

TEST_CASE("a run that early stopping has ended is over when it is resumed, and goes on with more patience") {
  const tests::TemporaryFolder folder;
  const auto steps_of = [&](std::int64_t patience) {
    const TrainStep step = line_step();
    auto loader = line_loader();
    const callbacks::EarlyStoppingOptions options{.min_delta = 100, .patience = patience, .restore_best_weights = true};
    const detail::Callbacks all = {std::make_shared<callbacks::EarlyStopping>(options),
                                   std::make_shared<callbacks::CsvLogger>(folder.path() / "metrics.csv")};
    const TrainState state = fit(step, line_start(step), loader,
                                 {.steps = 40,
                                  .validate = tests::line_validation,
                                  .validate_every = 2,
                                  .checkpoints = std::make_shared<checkpoint::Manager>(folder.path() / "checkpoints"),
                                  .save_every = 3,
                                  .resume = true},
                                 all);
    return std::pair(state.step.item<std::int64_t>(), fingerprint(to_tree(state)));
  };
  const auto first = steps_of(2);
  CHECK(first.first == 6);
  const std::string table = tests::file_text(folder.path() / "metrics.csv");
  for (int i = 0; i < 2; ++i) CHECK(steps_of(2) == first);
  CHECK(tests::file_text(folder.path() / "metrics.csv") == table);
  CHECK(steps_of(4).first == 10);
}

namespace {

/// Four batches, the one at `bad` full of NaN.
std::vector<Batch> batches_with_nan(int bad) {
  auto loader = line_loader();
  std::vector<Batch> batches;
  for (int i = 0; i < 4; ++i) {
    Batch batch = loader.next<Batch>();
    if (i == bad) batch.x = batch.x * std::numeric_limits<float>::quiet_NaN();
    batches.push_back(batch);
  }
  return batches;
}

}  // namespace

TEST_CASE("the guard against NaN skips, stops or reports") {
  const TrainStep step = line_step();
  const auto trained = [&](callbacks::NanGuardOptions options, std::vector<Batch> batches, std::int64_t steps,
                           std::shared_ptr<callbacks::NanGuard>* kept = nullptr) {
    const auto guard = std::make_shared<callbacks::NanGuard>(options);
    if (kept != nullptr) *kept = guard;
    return fit(step, line_start(step), batches, {.steps = steps}, {guard});
  };
  std::vector<Batch> without = batches_with_nan(-1);
  without.erase(without.begin() + 2);
  const TrainState expected = trained({}, without, 3);
  std::shared_ptr<callbacks::NanGuard> guard;
  const TrainState skipped = trained({.action = callbacks::OnNan::skip}, batches_with_nan(2), 3, &guard);
  CHECK(fingerprint(to_tree(skipped)) == fingerprint(to_tree(expected)));
  CHECK(guard->skipped() == 1);
  std::string told;
  const auto note = [&](const StepReport& report, const std::string& text) {
    told = text;
    CHECK(report.step == 3);
  };
  CHECK(trained({.on_found = note}, batches_with_nan(2), 4).step.item<std::int64_t>() == 3);
  CHECK(told == "nan_guard: loss is nan at step 3");
  CHECK(trained({.action = callbacks::OnNan::report}, batches_with_nan(2), 4, &guard).step.item<std::int64_t>() == 4);
  CHECK(guard->found() == 2);  // and then the weights are NaN
  std::vector<Batch> bad = {batches_with_nan(0)[0]};
  CHECK(trained({.action = callbacks::OnNan::skip, .most_skips = 3}, bad, 9, &guard).step.item<std::int64_t>() == 0);
  CHECK(guard->skipped() == 4);
  CHECK(step.traces() == 1);
}

TEST_CASE("norms of gradients are watched, weights averaged") {
  const TrainStep step = line_step();
  auto loader = line_loader();
  const auto norms =
      std::make_shared<callbacks::GradientNorms>(callbacks::GradientNormsOptions{.window = 2, .spike = 0});
  const auto average =
      std::make_shared<callbacks::AveragedWeights>(callbacks::AveragedWeightsOptions{.momentum = 0.75});
  std::vector<double> seen;
  std::vector<float> weights = {0};
  const auto each = std::make_shared<Each>([&](const StepReport& report, const Tree& state, Requests&) {
    seen.push_back(report.logs.at("grad_norm"));
    weights.push_back(state.at("trainable/b").array().item<float>());
  });
  fit(step, line_start(step), loader, {.steps = 4}, {norms, average, each});
  CHECK(norms->mean() == doctest::Approx((seen[2] + seen[3]) / 2));
  CHECK(norms->largest() == std::max({seen[0], seen[1], seen[2], seen[3]}));
  CHECK(norms->spikes() == std::vector<std::int64_t>{3, 4});
  float by_hand = weights[0];
  for (std::size_t i = 1; i < weights.size(); ++i) by_hand = 0.75F * by_hand + 0.25F * weights[i];
  CHECK(average->weights().at("b").array().item<float>() == doctest::Approx(by_hand));
  expect_error<ValueError>([] { callbacks::AveragedWeights({.momentum = 1}); }, "momentum is 1");
  expect_error<ValueError>([] { callbacks::GradientNorms({.window = 0}); }, "window is 0");
}

TEST_CASE("progress is written to the stream that is given") {
  std::ostringstream lines, line;
  const auto plain = std::make_shared<callbacks::ProgressBar>(lines, callbacks::ProgressBarOptions{.width = 4});
  const auto over = std::make_shared<callbacks::ProgressBar>(line, callbacks::ProgressBarOptions{.terminal = true});
  run_with({.steps = 8, .log_every = 2},
           [](const StepReport& report, const Tree&, Requests& requests) {
             if (report.step == 6) requests.stop("enough");
           },
           {plain, over});
  const std::string text = lines.str();
  CHECK(tests::contains(text, "epoch 1 step 2/8 [#...] grad_norm "));
  CHECK(tests::contains(text, "epoch 2 step 6/8 [###.] grad_norm "));
  CHECK(tests::contains(text, " rows/s, 0:00 left\n"));
  CHECK(tests::contains(text, "stopped at step 6: enough\n"));
  CHECK(line.str().starts_with("\repoch 1 step 2/8 [#######...."));
}
