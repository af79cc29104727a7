// A training, and the program that asks for the version, never load LibTorch. No test of this program may need ATen.

#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/backend/isa.h>
#include <lockstep/lockstep.h>

#include "benches/optimizer_step.h"
#include "benches/workloads.h"
#include "tests/start/mapped_libraries.h"
#include "tests/support/drawn_cases.h"
#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

/// A step calls the same kernels each time: the long tests take many nevertheless.
int steps_taken() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 2;
#else
  return tries_all() ? 20 : 3;
#endif
}

bool has_libtorch() { return is_mapped("libtorch_cpu"); }

/// Without vector instructions ATen computes what machine code does elsewhere.
bool needs_libtorch() { return backend::usable_isa() == backend::Isa::none; }
constexpr const char* without_vectors = "ATen computes where there are no vector instructions";

/// A step of a workload with what it is called with.
class Training {
 public:
  Training(const benches::Workload& workload, const DataParallelOptions& options)
      : workload_(workload), step_(benches::train_step(workload, options)) {
    auto [weights, state] = workload.model.init(random::key(0), workload.x);
    state_ = step_.init(std::move(weights), std::move(state));
    const Tree batches = benches::draw_batches(workload, 1, 1);
    batch_ = {batches.at("x").array()[0], batches.at("y").array()[0], ones({workload.rows()})};
  }

  void take(int count) {
    Logs logs;
    for (int i = 0; i < count; ++i) std::tie(state_, logs) = step_(std::move(state_), batch_);
    CHECK(logs.at("loss").item<float>() == logs.at("loss").item<float>());
  }

  const TrainStep& step() const { return step_; }
  const TrainState& state() const { return state_; }
  const Batch& batch() const { return batch_; }

 private:
  benches::Workload workload_;
  TrainStep step_;
  TrainState state_;
  Batch batch_;
};

}  // namespace

TEST_CASE("nothing is loaded before the first op") { CHECK_FALSE(has_libtorch()); }

TEST_CASE("training steps of models load no LibTorch") {
  if (needs_libtorch()) return skip(without_vectors);
  for (const std::string_view name : benches::workload_names()) {
    CAPTURE(name);
    const benches::Workload workload = benches::find_workload(name);
    Training(workload, {.devices = devices("cpu:0-1"), .shards = 2}).take(steps_taken());
    REQUIRE_FALSE(has_libtorch());
    Training(workload, {.devices = devices("cpu:0-1"), .shards = 8, .precision = Precision::bfloat16}).take(1);
    REQUIRE_FALSE(has_libtorch());
  }
}

TEST_CASE("updates of an optimizer alone load no LibTorch") {
  if (needs_libtorch()) return skip(without_vectors);
  const TemporaryFolder folder;
  benches::write_optimizer_inputs("adam10m", folder.path());
  const auto update = benches::optimizer_step("adam10m", folder.path(), nullptr);
  for (int i = 0; i < steps_taken(); ++i) update();
  CHECK_FALSE(has_libtorch());
}

TEST_CASE("fit with validation, rows in an order of its own and logs loads no LibTorch") {
  if (needs_libtorch()) return skip(without_vectors);
  const Model<Array, Array> model([](Scope& scope, const Array& x) {
    const Array h = relu(dense(scope["hidden"], flatten(x), {.units = 32}));
    return dense(scope["head"], h, {.units = 4});
  });
  const auto loss = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {{"accuracy", accuracy(logits, b.y, b.weight)}}};
  };
  const DataParallelOptions options{.devices = devices("cpu:0-1"), .shards = 8};
  const TrainStep step = data_parallel(model, loss, optim::adam(1e-2), options);
  const EvaluateStep evaluation(StepLoss(loss), options);
  const Array x = random::normal(random::key(1), {100, 4, 8});
  const Batch rows{x, argmax(mean(x, Axes{2}), 1), ones({100})};
  data::TreeLoader training(rows, {.batch = 16, .seed = 3});
  auto [weights, state] = model.init(random::key(0), x);
  int validations = 0;
  fit(step, step.init(std::move(weights), std::move(state)), training,
      {.steps = steps_taken(),
       .validate =
           [&](const Tree& now) {
             ++validations;
             data::TreeLoader validation(rows, {.batch = 16, .shuffle = false, .drop_last = false});
             return evaluate(evaluation, now, validation);
           },
       .validate_every = 2});
  CHECK(validations >= 1);
  CHECK_FALSE(has_libtorch());
}

TEST_CASE("what each launched process does" * doctest::skip()) {
  Training(benches::find_workload("mlp"), {.devices = devices("cpu:0"), .shards = 8}).take(steps_taken());
  Training(benches::find_workload("cnn"), {.devices = devices("cpu:0"), .shards = 8}).take(1);
  std::printf("of %d: %s.\n", world()->size(), has_libtorch() ? "loaded" : "not loaded");
  world()->barrier();
}

TEST_CASE("training steps in two processes load no LibTorch") {
  if (needs_libtorch()) return skip(without_vectors);
  if (!can_launch()) return skip(no_launcher());
  const std::string output = launched(2, "what each launched process does");
  CAPTURE(output);
  CHECK(count(output, "of 2: not loaded.") == 2);
}

}  // namespace lockstep::tests
