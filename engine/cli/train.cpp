#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "engine/cli/commands.h"
#include "engine/cli/experiment.h"
#include "engine/cli/given_paths.h"
#include "engine/cli/reports.h"
#include "engine/cli/run_folder.h"
#include "engine/cli/settings.h"
#include "engine/cli/stop_signals.h"
#include "engine/files/open_file.h"

namespace lockstep::cli {
namespace {

using data::Dataset;

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

/// What was asked for, as all processes must be. Data may lie elsewhere for each; what it is is compared.
ProcessEntries entries_of(const TrainArguments& a) {
  ProcessEntries entries;
  for (const auto& [name, value] : flags_of(a)) {
    if (name != "data-dir") entries.emplace_back("--" + name, value.empty() ? "left out" : value);
  }
  for (const auto& [name, value] : a.settings) entries.emplace_back("--set " + name, value);
  entries.emplace_back("--run", a.run.string());
  entries.emplace_back("--resume", a.resume ? "true" : "false");
  entries.emplace_back("--accept-change", fmt::format("{}", fmt::join(a.accept_changes, ",")));
  return entries;
}

/// Sets how processes wait, and sees that all were asked for the same.
void meet_others(const TrainArguments& a) {
  Processes& others = *world();
  if (a.collective_timeout > 0) others.set_time_limit(a.collective_timeout);
  others.expect_same("lockstep train", entries_of(a));
  if (a.check && others.size() > 1) {
    throw ValueError(fmt::format(
        "--check compares with 1 shard, which {} processes cannot divide; check in one process, where as many --shards "
        "have the same bits, and leave it out here",
        others.size()));
  }
}

ProcessEntries contents_of(const Dataset& set, const std::string& name) {
  const auto text = [](const data::HostTable& table) {
    return to_string(table.type) + " with SHA-256 " + digest_of(table);
  };
  return {{"the rows of the " + name + " set (--data-dir)", text(set.x)},
          {"the labels of the " + name + " set (--data-dir)", text(set.y)}};
}

/// Sees that all processes have read the same data.
void expect_same_data(const DataSets& sets) {
  if (world()->size() == 1) return;
  ProcessEntries entries = contents_of(sets.train, "training");
  const ProcessEntries more = contents_of(sets.test, "validation");
  entries.insert(entries.end(), more.begin(), more.end());
  world()->expect_same("lockstep train", entries);
}

/// The run's folder, which process 0 makes or opens for itself; the others then find it there.
RunFolder open_run(const TrainArguments& a, const Manifest& manifest, const std::string& config, std::int64_t steps) {
  RunFolder folder = RunFolder::elsewhere(a.run);
  world()->run_on_first("opening the run's folder", [&] {
    folder = a.resume ? RunFolder::resume(a.run, manifest, a.accept_changes, steps)
                      : RunFolder::create(a.run, manifest, config);
  });
  return folder;
}

/// What is done once nothing refuses the run: the state was made, or restored in all processes.
class Accepted final : public Callback {
 public:
  explicit Accepted(std::function<void()> then) : then_(std::move(then)) {}
  void on_begin(const StepReport&, const Tree&) override { then_(); }

 private:
  std::function<void()> then_;
};

/// Of a callback what takes back the logs behind the step that a run goes on from: of one that it writes no more.
class TakesBack final : public Callback {
 public:
  explicit TakesBack(std::shared_ptr<Callback> logger) : logger_(std::move(logger)) {}
  void on_begin(const StepReport& report, const Tree& state) override { logger_->on_begin(report, state); }
  void on_resume(const StepReport& report, const Tree& state, Requests& requests) override {
    logger_->on_resume(report, state, requests);
  }
  void close() override { logger_->close(); }
  std::int64_t every() const override { return logger_->every(); }

 private:
  std::shared_ptr<Callback> logger_;
};

/// Logs that a run writes where it is asked to, and has in its folder where it was asked before.
detail::Callbacks optional_loggers(const TrainArguments& a, const RunFolder& folder) {
  const std::filesystem::path bits = a.run / "bits.csv";
  detail::Callbacks callbacks;
  const auto add = [&](bool is_asked, const std::filesystem::path& file, std::shared_ptr<Callback> logger) {
    std::error_code ignored;
    if (is_asked) {
      callbacks.push_back(std::move(logger));
    } else if (a.resume && std::filesystem::exists(file, ignored)) {
      callbacks.push_back(std::make_shared<TakesBack>(std::move(logger)));
    }
  };
  if (world()->rank() == 0) {
    add(a.tensorboard, folder.events(), std::make_shared<callbacks::TensorBoard>(folder.events()));
  }
  add(a.trace_bits, bits, std::make_shared<callbacks::BitTrace>(bits));
  return callbacks;
}

/// Speaks and writes: of process 0.
detail::Callbacks callbacks_of(const RunFolder& folder, const ReportOptions& report) {
  if (world()->rank() != 0) return {};
  detail::Callbacks callbacks = {std::make_shared<Reporter>(report)};
  callbacks.push_back(std::make_shared<callbacks::CsvLogger>(
      folder.metrics(), callbacks::CsvLoggerOptions{.columns = {"accuracy", "epoch", "grad_norm", "loss", "step"}}));
  callbacks.push_back(std::make_shared<callbacks::CsvLogger>(
      folder.speed(),
      callbacks::CsvLoggerOptions{.columns = {"images_per_second", "step"}, .rate = "images_per_second"}));
  return callbacks;
}

/// What `--config` and `verify` make the run again from, and what it came to.
void write_record(const std::filesystem::path& path, const std::string& text) {
  try {
    files::replace_text(path, text);
  } catch (const files::FileError& error) {
    throw CheckpointError(fmt::format("{} cannot be written: {}; free the disk", path.string(), error.why()));
  }
}

/// The signal that has come to this process or another one; 0: to none.
int signal_of_any(const StopSignals& signals) {
  const int own = signals.received();
  std::vector<int> all(static_cast<std::size_t>(world()->size()));
  world()->all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return std::ranges::max(all);
}

/// Says where the run is saved and how it goes on, before any process ends: a launcher ends the others with the first one.
void say_stopped(const TrainArguments& a, std::int64_t step, const std::filesystem::path& saved, int signal) {
  world()->run_on_first("saying how to go on", [&] {
    std::fflush(stdout);
    const std::string text = fmt::format(
        "lockstep: {} stopped the run after step {}, which is saved in {}; to go on: lockstep train --config {} "
        "--resume --run {}\n",
        name_of_signal(signal), step, saved.string(), config_of(a.run).string(), a.run.string());
    static_cast<void>(std::fputs(text.c_str(), stderr));  // a terminal that is gone changes no exit code
  });
}

void write_trace(const TrainArguments& a, const Profile& profile) {
  write_file(a.profile, profile.chrome_trace(), "name another file in --profile");
}

}  // namespace

int train(const TrainArguments& a, const std::function<void(const Dataset&)>& check, OnSignal on_signal) {
  meet_others(a);
  if (!a.data_dir.empty()) check_is_utf8(std::filesystem::absolute(a.data_dir), "--data-dir");
  DataSets sets = load(a);
  expect_same_data(sets);
  if (check) check(sets.train);
  const Model<Array, Array> model = model_of(a, sets.train);
  DataParallelOptions options = parallel_options(a);
  if (!a.profile.empty()) {
    options.debug.profile = std::make_shared<Profile>();
    // A file that cannot be written fails before the first step.
    if (!a.resume) write_trace(a, *options.debug.profile);
  }
  const auto train_set = std::make_shared<const Dataset>(std::move(sets.train));
  const auto test_set = std::make_shared<const Dataset>(std::move(sets.test));
  data::Loader loader = training_loader(a, train_set);
  const std::int64_t steps = steps_of(a, loader.batches_per_epoch());
  const TrainStep step = step_of(a, model, steps, options);
  const Mesh mesh = step.mesh(a.batch);
  const bool quiet = world()->rank() != 0;
  const Manifest manifest = manifest_of(a, steps, mesh.shards(), *train_set, sets.digest);

  TrainState begun = initial_state(model, step, a, *train_set);  // a model that cannot be made leaves no folder
  const std::string config = config_text(flags_of(a), a.settings);
  const RunFolder folder = open_run(a, manifest, config, steps);
  detail::Callbacks callbacks = {std::make_shared<Accepted>([&] {
    world()->set_flight_folder(a.run);
    if (a.resume && options.debug.profile != nullptr) write_trace(a, *options.debug.profile);
    if (quiet) return;
    if (a.resume) {
      folder.write(manifest, config);
      folder.remove_result();  // of fewer steps
    }
    fmt::print("model {} data {} seed {} batch {} shards {} steps {}\n", a.model, a.data, a.seed, a.batch,
               mesh.shards(), steps);
    print_placement(mesh);
  })};
  const detail::Callbacks reporting =
      callbacks_of(folder, {.steps = steps, .shards = mesh.shards(), .terminal = isatty(STDOUT_FILENO) == 1});
  callbacks.insert(callbacks.end(), reporting.begin(), reporting.end());
  for (const auto& logger : optional_loggers(a, folder)) callbacks.push_back(logger);
  const checkpoint::ManagerOptions keeping{.keep_last = a.keep_last};
  std::optional<StopSignals> signals;
  if (on_signal == OnSignal::save_and_stop) signals.emplace();
  TrainState state =
      fit(step, std::move(begun), loader,
          {.steps = steps,
           .log_every = a.log_every,
           .check_one_meaning = a.check,
           .check_replicas_every = a.check_replicas,
           .validate = validation_of(model, options, test_set, a.batch),
           .checkpoints = std::make_shared<checkpoint::Manager>(folder.checkpoints(), keeping),
           .save_every = a.checkpoint_every,
           .resume = a.resume,
           .manifest = manifest,
           .accept_changes = {"*"},  // the folder was opened under what was accepted
           .stop_when = signals ? std::function<bool()>([&] { return signals->received() != 0; }) : nullptr},
          callbacks);
  if (const auto reached = state.step.item<std::int64_t>(); signals && reached < steps) {
    if (const int signal = signal_of_any(*signals); signal != 0) {
      say_stopped(a, reached, folder.checkpoints() / fmt::format("step-{}", reached), signal);
      return 128 + signal;
    }
  }
  signals.reset();
  if (options.debug.profile != nullptr && !quiet) {
    write_trace(a, *options.debug.profile);
    fmt::print("\nprofile: {}", options.debug.profile->table(measure_peak()));
  }
  const std::string bits = fingerprint(to_tree(std::move(state)));
  if (!quiet) {
    write_record(folder.result(), fmt::format("{{\n  \"fingerprint\": \"{}\",\n  \"steps\": {}\n}}\n", bits, steps));
    write_reports({{a.run}, {}});
    fmt::print("fingerprint {}\n", bits);
  }
  return success;
}

}  // namespace lockstep::cli
