#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "engine/cli/commands.h"
#include "engine/cli/reports.h"
#include "engine/cli/run_folder.h"

#ifndef LOCKSTEP_FASHION_MNIST_DIR
#define LOCKSTEP_FASHION_MNIST_DIR "/usr/share/datasets/fashion-mnist"
#endif

namespace lockstep::cli {
namespace {

using data::Dataset;

Dataset in_dtype(Dataset dataset, DType dtype) {
  if (dtype == DType::float32) return dataset;
  const std::size_t count = dataset.x.bytes.size() / sizeof(float);
  std::vector<std::byte> wide(count * sizeof(double));
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, dataset.x.bytes.data() + i * sizeof(float), sizeof(float));
    const double widened = value;
    std::memcpy(wide.data() + i * sizeof(double), &widened, sizeof(double));
  }
  dataset.x = {{dtype, dataset.x.type.shape, {}}, std::move(wide)};
  return dataset;
}

data::FashionMnist load(const TrainArguments& a) {
  if (a.data != "fashion-mnist") throw ValueError("[train] no data set '" + a.data + "'; known is fashion-mnist");
  data::FashionMnist sets =
      data::load_fashion_mnist(a.data_dir.empty() ? std::filesystem::path(LOCKSTEP_FASHION_MNIST_DIR) : a.data_dir);
  const DType dtype = parse_dtype(a.dtype);
  return {in_dtype(std::move(sets.train), dtype), in_dtype(std::move(sets.test), dtype)};
}

DataParallelOptions parallel_options(const TrainArguments& a) {
  DataParallelOptions options{
      .devices = {}, .shards = a.shards, .debug = {.nans = a.debug_nans}, .precision = parse_precision(a.precision)};
  if (options.precision != Precision::float32 && parse_dtype(a.dtype) != DType::float32) {
    throw ValueError("[train] --precision " + a.precision + " is one of float32 models, and --dtype is " + a.dtype +
                     "; leave one of the two out");
  }
  if (a.devices > 0) options.devices = devices("cpu:0-" + std::to_string(a.devices - 1));
  return options;
}

LossFunction loss_of(const Model<Array, Array>& model, bool training) {
  return [model, training](const Tree& trainable, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(trainable, state, b.x, training, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {{"accuracy", accuracy(logits, b.y, b.weight)}}};
  };
}

/// Means over the test set, for `fit`.
std::function<std::map<std::string, double>(const Tree&)> validation_of(const Model<Array, Array>& model,
                                                                        const DataParallelOptions& options,
                                                                        std::shared_ptr<const Dataset> test,
                                                                        std::int64_t batch) {
  return [evaluation = EvaluateStep(loss_of(model, false), options), test = std::move(test), batch](const Tree& state) {
    return evaluate(evaluation, state, data::Loader(test, {.batch = batch, .shuffle = false, .drop_last = false}));
  };
}

std::string digest_of(const data::HostTable& table) {
  return sha256({reinterpret_cast<const char*>(table.bytes.data()), table.bytes.size()});
}

Manifest manifest_of(const TrainArguments& a, std::int64_t shards, const Dataset& train) {
  Manifest manifest = machine_description();
  manifest["model"] = a.model;
  manifest["data"] = a.data;
  manifest["training_rows"] = std::to_string(train.rows());
  manifest["training_sha256"] = sha256(digest_of(train.x) + digest_of(train.y));
  manifest["seed"] = std::to_string(a.seed);
  manifest["shards"] = std::to_string(shards);
  manifest["batch"] = std::to_string(a.batch);
  manifest["dtype"] = a.dtype;
  manifest["precision"] = a.precision;
  manifest["learning_rate"] = fmt::format("{}", a.learning_rate);
  return manifest;
}

void print_placement(const Mesh& mesh) {
  const int processes = world()->size();
  const auto devices = static_cast<std::int64_t>(mesh.devices().size());
  const std::int64_t each = mesh.shards() / (devices * processes);
  for (std::int64_t d = 0; d < devices; ++d) {
    const std::int64_t first = (world()->rank() * devices + d) * each;
    fmt::print("device {} runs shards {}-{}\n", to_string(mesh.devices()[static_cast<std::size_t>(d)]), first,
               first + each - 1);
  }
}

TrainState initial_state(const Model<Array, Array>& model, const TrainStep& step, const TrainArguments& a,
                         const Dataset& train) {
  ArrayType example = train.x.type;
  example.shape = example.shape.with(0, 1);
  auto [trainable, non_trainable] = model.init(random::key(a.seed), example);
  return step.init(std::move(trainable), std::move(non_trainable));
}

/// What was asked for, as all processes must be.
ProcessEntries flags_of(const TrainArguments& a) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {{"--model", a.model},
          {"--data", a.data},
          {"--seed", text(a.seed)},
          {"--shards", text(a.shards)},
          {"--devices", text(a.devices)},
          {"--batch", text(a.batch)},
          {"--steps", text(a.steps)},
          {"--epochs", text(a.epochs)},
          {"--learning-rate", text(a.learning_rate)},
          {"--dtype", a.dtype},
          {"--precision", a.precision},
          {"--run", a.run.string()},
          {"--log-every", text(a.log_every)},
          {"--checkpoint-every", text(a.checkpoint_every)},
          {"--collective-timeout", text(a.collective_timeout)},
          {"--check-replicas", text(a.check_replicas)},
          {"--resume", text(a.resume)},
          {"--accept-change", fmt::format("{}", fmt::join(a.accept_changes, ","))},
          {"--keep-last", text(a.keep_last)},
          {"--tensorboard", text(a.tensorboard)},
          {"--check", text(a.check)},
          {"--debug-nans", text(a.debug_nans)}};
}

/// Sets how processes wait, and sees that all were asked for the same.
void meet_others(const TrainArguments& a) {
  Processes& others = *world();
  if (a.collective_timeout > 0) others.set_time_limit(a.collective_timeout);
  others.expect_same("lockstep train", flags_of(a));
}

ProcessEntries contents_of(const Dataset& set, const std::string& name) {
  const auto text = [](const data::HostTable& table) {
    return to_string(table.type) + " with SHA-256 " + digest_of(table);
  };
  return {{"the rows of the " + name + " set (--data-dir)", text(set.x)},
          {"the labels of the " + name + " set (--data-dir)", text(set.y)}};
}

/// Sees that all processes have read the same data.
void compare(const data::FashionMnist& sets) {
  if (world()->size() == 1) return;
  ProcessEntries entries = contents_of(sets.train, "training");
  const ProcessEntries more = contents_of(sets.test, "validation");
  entries.insert(entries.end(), more.begin(), more.end());
  world()->expect_same("lockstep train", entries);
}

/// The run's folder, which process 0 makes or opens for itself; the others then find it there.
RunFolder open_run(const TrainArguments& a, const Manifest& manifest) {
  RunFolder folder = RunFolder::elsewhere(a.run);
  world()->run_on_first("opening the run's folder", [&] {
    folder = a.resume ? RunFolder::resume(a.run, manifest, a.accept_changes) : RunFolder::create(a.run, manifest);
  });
  world()->set_flight_folder(a.run);
  return folder;
}

/// Speaks and writes: of process 0.
detail::Callbacks callbacks_of(const TrainArguments& a, const RunFolder& folder, const ReportOptions& report) {
  if (world()->rank() != 0) return {};
  detail::Callbacks callbacks = {std::make_shared<Reporter>(report)};
  callbacks.push_back(std::make_shared<callbacks::CsvLogger>(
      folder.metrics(),
      callbacks::CsvLoggerOptions{.columns = {"accuracy", "epoch", "grad_norm", "images_per_second", "loss", "step"},
                                  .rate = "images_per_second"}));
  if (a.tensorboard) callbacks.push_back(std::make_shared<callbacks::TensorBoard>(folder.events()));
  return callbacks;
}

}  // namespace

int train(const TrainArguments& a) {
  meet_others(a);
  const Model<Array, Array> model = models::find(a.model);
  DataParallelOptions options = parallel_options(a);
  if (!a.profile.empty()) {
    options.debug.profile = std::make_shared<Profile>();
    options.debug.profile->write_chrome_trace(a.profile);  // a file that cannot be written fails before the first step
  }
  const TrainStep step = data_parallel(model, loss_of(model, true), optim::adamw(a.learning_rate), options);
  const Mesh mesh = step.mesh(a.batch);
  const bool quiet = world()->rank() != 0;

  data::FashionMnist sets = load(a);
  compare(sets);
  const Manifest manifest = manifest_of(a, mesh.shards(), sets.train);
  const auto train_set = std::make_shared<const Dataset>(std::move(sets.train));
  const auto test_set = std::make_shared<const Dataset>(std::move(sets.test));
  data::Loader loader(train_set, {.batch = a.batch, .seed = a.seed});
  const std::int64_t steps = a.steps > 0 ? a.steps : std::max<std::int64_t>(a.epochs, 1) * loader.batches_per_epoch();

  const RunFolder folder = open_run(a, manifest);
  if (!quiet) {
    fmt::print("model {} data {} seed {} batch {} shards {} steps {}\n", a.model, a.data, a.seed, a.batch,
               mesh.shards(), steps);
    print_placement(mesh);
  }
  const checkpoint::ManagerOptions keeping{.keep_last = a.keep_last};
  TrainState state =
      fit(step, initial_state(model, step, a, *train_set), loader,
          {.steps = steps,
           .log_every = a.log_every,
           .check_one_meaning = a.check,
           .check_replicas_every = a.check_replicas,
           .validate = validation_of(model, options, test_set, a.batch),
           .checkpoints = std::make_shared<checkpoint::Manager>(folder.checkpoints(), keeping),
           .save_every = a.checkpoint_every,
           .resume = a.resume,
           .manifest = manifest,
           .accept_changes = {"*"}},  // the folder was opened under what was accepted
          callbacks_of(a, folder, {.steps = steps, .shards = mesh.shards(), .terminal = isatty(STDOUT_FILENO) == 1}));
  if (options.debug.profile != nullptr && !quiet) {
    options.debug.profile->write_chrome_trace(a.profile);
    fmt::print("\nprofile: {}", options.debug.profile->table(measure_peak()));
  }
  if (!quiet) fmt::print("fingerprint {}\n", fingerprint(to_tree(std::move(state))));
  return success;
}

}  // namespace lockstep::cli
