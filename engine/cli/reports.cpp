#include "engine/cli/reports.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace lockstep::cli {
namespace {

constexpr int bar_width = 30;

std::string bar(std::int64_t done, std::int64_t all) {
  const auto filled = static_cast<std::size_t>(bar_width * done / std::max<std::int64_t>(all, 1));
  return std::string(filled, '#') + std::string(bar_width - filled, '.');
}

double value_or_zero(const std::map<std::string, double>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? 0.0 : found->second;
}

}  // namespace

std::vector<std::string> check_lines(std::int64_t shards, const std::vector<std::string>& findings) {
  std::vector<std::string> lines = {
      shards == 1 ? "check: one shard, with which no other is to be compared"
                  : fmt::format("check: loss, gradients and state are those of one shard with {}, too", shards)};
  if (findings.empty()) lines.emplace_back("check: no gradient was found that becomes NaN where the loss is finite");
  for (const std::string& finding : findings) lines.push_back("check: " + finding);
  return lines;
}

double Reporter::Mark::rate_until(const StepReport& report) const {
  const double spent = report.seconds - seconds;
  return spent > 0 ? static_cast<double>(report.rows - rows) / spent : 0;
}

void Reporter::on_check(const std::vector<std::string>& findings) {
  for (const std::string& line : check_lines(options_.shards, findings)) fmt::print("{}\n", line);
}

void Reporter::on_step(const StepReport& report, const Tree&, Requests&) {
  const std::string text = fmt::format(
      "epoch {} step {}/{} loss {:.4f} accuracy {:.4f} grad_norm {:.3f} images/s {:.0f}", report.epoch + 1, report.step,
      options_.steps, value_or_zero(report.logs, "loss"), value_or_zero(report.logs, "accuracy"),
      value_or_zero(report.logs, "grad_norm"), logged_.rate_until(report));
  logged_ = {report.seconds, report.rows};
  if (options_.terminal) {
    fmt::print("\r[{}] {}", bar(report.step, options_.steps), text);
  } else {
    fmt::print("{}\n", text);
  }
  std::fflush(stdout);
}

void Reporter::on_epoch(const StepReport& report, const Tree&, Requests&) {
  epochs_.push_back({report.epoch + 1, report.step, report.logs, epoch_began_.rate_until(report)});
  epoch_began_ = {report.seconds, report.rows};
  fmt::print("{}epoch {} validation loss {:.4f} validation accuracy {:.4f}\n", options_.terminal ? "\n" : "",
             report.epoch + 1, value_or_zero(report.logs, "val_loss"), value_or_zero(report.logs, "val_accuracy"));
}

void Reporter::on_end(const StepReport& report, const Tree&, Requests&) { print_table(report.seconds); }

void Reporter::print_table(double seconds) const {
  fmt::print("\n{:>6} {:>8} {:>10} {:>10} {:>12} {:>12} {:>10}\n", "epoch", "step", "loss", "accuracy", "val loss",
             "val accuracy", "images/s");
  for (const Epoch& e : epochs_) {
    fmt::print("{:>6} {:>8} {:>10.4f} {:>10.4f} {:>12.4f} {:>12.4f} {:>10.0f}\n", e.epoch, e.step,
               value_or_zero(e.values, "loss"), value_or_zero(e.values, "accuracy"),
               value_or_zero(e.values, "val_loss"), value_or_zero(e.values, "val_accuracy"), e.images_per_second);
  }
  fmt::print("training time {:.1f} s\n", seconds);
}

}  // namespace lockstep::cli
