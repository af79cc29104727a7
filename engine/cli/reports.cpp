#include "engine/cli/reports.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace lockstep::cli {
namespace {

constexpr int bar_width = 30;

std::string bar(std::int64_t done, std::int64_t all) {
  const auto filled = static_cast<std::size_t>(bar_width * done / std::max<std::int64_t>(all, 1));
  return std::string(filled, '#') + std::string(bar_width - filled, '.');
}

double value_of(const std::map<std::string, double>& values, const std::string& name) {
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

Reporter::Reporter(RunFolder& folder, const data::Loader& loader, Evaluation evaluate, ReportOptions options)
    : folder_(folder),
      loader_(loader),
      evaluate_(std::move(evaluate)),
      options_(std::move(options)),
      logged_step_(options_.first_step) {}

bool Reporter::is_logged(const StepReport& report) const {
  return report.step % options_.log_every == 0 || report.step == options_.steps ||
         loader_.position().epoch != report.epoch;
}

void Reporter::print_progress(const StepReport& report, double images_per_second) const {
  const std::string text =
      fmt::format("epoch {} step {}/{} loss {:.4f} accuracy {:.4f} grad_norm {:.3f} images/s {:.0f}", report.epoch + 1,
                  report.step, options_.steps, value_of(report.logs, "loss"), value_of(report.logs, "accuracy"),
                  value_of(report.logs, "grad_norm"), images_per_second);
  if (options_.terminal) {
    fmt::print("\r[{}] {}", bar(report.step, options_.steps), text);
  } else {
    fmt::print("{}\n", text);
  }
  std::fflush(stdout);
}

void Reporter::log(const StepReport& report) {
  const std::int64_t images = (report.step - logged_step_) * options_.batch;
  const double rate = seconds_ > 0 ? static_cast<double>(images) / seconds_ : 0;
  logged_step_ = report.step;
  epoch_images_ += images;
  epoch_seconds_ += seconds_;
  total_seconds_ += seconds_;
  seconds_ = 0;
  if (options_.quiet) return;
  print_progress(report, rate);
  std::map<std::string, double> row = report.logs;
  row["step"] = static_cast<double>(report.step);
  row["epoch"] = static_cast<double>(report.epoch);
  row["images_per_second"] = rate;
  folder_.append_metrics(row);
}

void Reporter::on_check(const std::vector<std::string>& findings) {
  if (options_.quiet) return;
  for (const std::string& line : check_lines(options_.shards, findings)) fmt::print("{}\n", line);
}

void Reporter::on_step(const StepReport& report, const TrainState& state) {
  seconds_ += report.seconds;
  if (is_logged(report)) log(report);
  if (options_.checkpoint_every > 0 && report.step % options_.checkpoint_every == 0) {
    folder_.save(state, loader_.position(), options_.manifest);
  }
}

void Reporter::on_epoch(const StepReport& report, const TrainState& state) {
  Epoch epoch{.epoch = report.epoch + 1, .step = report.step, .values = report.logs};
  for (const auto& [name, value] : evaluate_(state)) epoch.values["validation " + name] = value;
  epoch.values["images/s"] = epoch_seconds_ > 0 ? static_cast<double>(epoch_images_) / epoch_seconds_ : 0;
  epoch_images_ = 0;
  epoch_seconds_ = 0;
  if (!options_.quiet) {
    fmt::print("{}epoch {} validation loss {:.4f} validation accuracy {:.4f}\n", options_.terminal ? "\n" : "",
               epoch.epoch, value_of(epoch.values, "validation loss"), value_of(epoch.values, "validation accuracy"));
  }
  if (options_.checkpoint_every == 0) folder_.save(state, loader_.position(), options_.manifest);
  epochs_.push_back(std::move(epoch));
}

void Reporter::on_end(const StepReport&, const TrainState& state) {
  folder_.save(state, loader_.position(), options_.manifest);
  if (!options_.quiet) print_table();
}

void Reporter::print_table() const {
  fmt::print("\n{:>6} {:>8} {:>10} {:>10} {:>12} {:>12} {:>10}\n", "epoch", "step", "loss", "accuracy", "val loss",
             "val accuracy", "images/s");
  for (const Epoch& e : epochs_) {
    fmt::print("{:>6} {:>8} {:>10.4f} {:>10.4f} {:>12.4f} {:>12.4f} {:>10.0f}\n", e.epoch, e.step,
               value_of(e.values, "loss"), value_of(e.values, "accuracy"), value_of(e.values, "validation loss"),
               value_of(e.values, "validation accuracy"), value_of(e.values, "images/s"));
  }
  fmt::print("training time {:.1f} s\n", total_seconds_);
}

}  // namespace lockstep::cli
