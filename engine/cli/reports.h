#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/train.h>

#include "engine/cli/run_folder.h"

namespace lockstep::cli {

/// Means over a data set, by name.
using Evaluation = std::function<std::map<std::string, double>(const TrainState& state)>;

/// What `train --check` found: lines, of which the first says that the step means the same with any number of shards.
std::vector<std::string> check_lines(std::int64_t shards, const std::vector<std::string>& findings);

struct ReportOptions {
  std::int64_t first_step = 0;  ///< Steps made before this run: those of a resumed one.
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t shards = 1;
  std::int64_t log_every = 1;
  std::int64_t checkpoint_every = 0;
  bool quiet = false;     ///< Another process speaks.
  bool terminal = false;  ///< Progress bar instead of lines.
  Manifest manifest;
};

/// Prints progress, evaluates at the end of each epoch, writes metrics and checkpoints, closes with a table.
class Reporter final : public Callback {
 public:
  Reporter(RunFolder& folder, const data::Loader& loader, Evaluation evaluate, ReportOptions options);
  void on_check(const std::vector<std::string>& findings) override;
  void on_step(const StepReport& report, const TrainState& state) override;
  void on_epoch(const StepReport& report, const TrainState& state) override;
  void on_end(const StepReport& report, const TrainState& state) override;

 private:
  struct Epoch {
    std::int64_t epoch = 0;
    std::int64_t step = 0;
    std::map<std::string, double> values;
  };

  /// Whether this report is one of a log line: reports also come for checkpoints.
  bool is_logged(const StepReport& report) const;
  void log(const StepReport& report);
  void print_progress(const StepReport& report, double images_per_second) const;
  void print_table() const;

  RunFolder& folder_;
  const data::Loader& loader_;
  Evaluation evaluate_;
  ReportOptions options_;
  std::int64_t logged_step_ = 0;
  double seconds_ = 0;  ///< Since the last log line.
  std::int64_t epoch_images_ = 0;
  double epoch_seconds_ = 0;
  double total_seconds_ = 0;
  std::vector<Epoch> epochs_;
};

}  // namespace lockstep::cli
