#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep::data {
struct Dataset;
}  // namespace lockstep::data

namespace lockstep::cli {

/// Exit codes of the program.
inline constexpr int success = 0;
inline constexpr int failure = 1;
inline constexpr int usage_error = 2;

/// What `lockstep train` was asked for.
struct TrainArguments {
  std::string model = "cnn";
  std::string data = "fashion-mnist";
  std::filesystem::path data_dir;
  int devices = 0;          ///< Of this process; 0: the largest power of two of cores that divides the shards.
  std::int64_t shards = 0;  ///< 0: the largest power of two up to 8 not above the batch.
  std::uint64_t seed = 0;
  std::int64_t batch = 64;
  std::int64_t steps = 0;   ///< 0: taken from epochs.
  std::int64_t epochs = 0;  ///< 0: 1 where no steps are given either.
  double learning_rate = 1e-3;
  std::string optimizer = "adamw";
  std::string schedule = "constant";
  std::map<std::string, std::string> settings;  ///< "model.width" and so on.
  std::string dtype = "float32";
  std::string precision = "float32";
  std::filesystem::path run;
  std::int64_t log_every = 50;
  std::int64_t checkpoint_every = 0;  ///< Steps; 0: at the end of each epoch.
  double collective_timeout = 0;      ///< Seconds; 0: the environment's, else the default.
  std::int64_t check_replicas = 0;    ///< Steps between comparisons of the processes' states; 0: none.
  bool resume = false;
  std::vector<std::string> accept_changes;  ///< Entries of the manifest that may differ in a resumed run.
  std::int64_t keep_last = 0;               ///< Checkpoints; 0: all.
  bool tensorboard = false;
  bool trace_bits = false;
  std::string seeds;  ///< "0-4": a run each, in folders of their own; empty: the seed alone.
  bool check = false;
  bool debug_nans = false;
  std::filesystem::path profile;  ///< Where the trace goes; empty: none.
};

/// A run whose model is used: from its latest checkpoint, or that of a step.
struct UseArguments {
  std::filesystem::path run;
  std::int64_t step = 0;  ///< 0: the latest.
  std::filesystem::path data_dir;
  std::filesystem::path out;  ///< Of `predict`.
};

struct ReportArguments {
  std::vector<std::filesystem::path> runs;
  std::filesystem::path out;  ///< Empty: report.html in the first run's folder.
};

/// What `train` is asked for by the words behind it, those of `--config` among them. Throws ValueError.
TrainArguments parse_train(const std::vector<std::string>& words);

/// What SIGINT or SIGTERM does to a training: end it at once, or the first one after the step, which is saved.
enum class OnSignal { end, save_and_stop };

/// `check` throws for data that the training is not to be made on. 128 and the signal where one has stopped the run.
int train(const TrainArguments& arguments, const std::function<void(const data::Dataset&)>& check = {},
          OnSignal on_signal = OnSignal::end);
/// A run for each seed, one after the other, and a report of them all.
int train_seeds(const TrainArguments& arguments);
/// Loss and metrics of a run's model on the validation set.
int evaluate_run(const UseArguments& arguments);
/// Its classes for the validation set, as CSV: row, class, label.
int predict_run(const UseArguments& arguments);
int compare_runs(const std::filesystem::path& a, const std::filesystem::path& b);
/// Makes a run again from what its folder says, and compares.
int verify_run(const std::filesystem::path& run, const std::filesystem::path& data_dir);
/// Writes report.html, and each run's curves.svg; says where.
std::vector<std::filesystem::path> write_reports(const ReportArguments& arguments);
/// The same, printed.
int report(const ReportArguments& arguments);
/// A model's variables.
int summarize(const TrainArguments& arguments);
/// Steps a second of a training.
int bench(const TrainArguments& arguments);
/// Versions, processor, devices, backends.
int info();

}  // namespace lockstep::cli
