#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/callbacks.h>

namespace lockstep::cli {

/// What `train --check` found: lines, of which the first says that the step means the same with any number of shards.
std::vector<std::string> check_lines(std::int64_t shards, const std::vector<std::string>& findings);

struct ReportOptions {
  std::int64_t steps = 0;
  std::int64_t shards = 1;
  bool terminal = false;  ///< Progress bar instead of lines.
};

/// Prints progress and validations, closes with a table.
class Reporter final : public Callback {
 public:
  explicit Reporter(ReportOptions options) : options_(options) {}
  void on_check(const std::vector<std::string>& findings) override;
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_epoch(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_end(const StepReport& report, const Tree& state, Requests& requests) override;

 private:
  struct Epoch {
    std::int64_t epoch = 0;
    std::int64_t step = 0;
    std::map<std::string, double> values;
    double images_per_second = 0;
  };
  /// Where the run stood.
  struct Mark {
    double seconds = 0;
    std::int64_t rows = 0;
    double rate_until(const StepReport& report) const;
  };

  void print_table(double seconds) const;

  ReportOptions options_;
  Mark logged_;
  Mark epoch_began_;
  std::vector<Epoch> epochs_;
};

}  // namespace lockstep::cli
