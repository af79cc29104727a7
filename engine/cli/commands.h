#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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
  bool check = false;
  bool debug_nans = false;
  std::filesystem::path profile;  ///< Where the trace goes; empty: none.
};

int train(const TrainArguments& arguments);
/// Versions, processor, devices, backends.
int info();

}  // namespace lockstep::cli
