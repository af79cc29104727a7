#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>

#include <fmt/format.h>

#include <lockstep/callbacks.h>
#include <lockstep/processes.h>

#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {
namespace {

std::string bar(std::int64_t done, std::int64_t all, int width) {
  const std::int64_t filled = std::clamp<std::int64_t>(width * done / std::max<std::int64_t>(all, 1), 0, width);
  return std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(width - filled), '.');
}

/// "1:02:03", "2:03" or "0:03".
std::string clock(double seconds) {
  const std::int64_t all = std::llround(std::max(seconds, 0.0));
  const std::int64_t hours = all / 3600, minutes = all / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, all % 60);
  return fmt::format("{}:{:02}", minutes, all % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::ostream& out, ProgressBarOptions options) : out_(out), options_(options) {
  trainer::check_count("progress_bar", "every", options_.every);
}

void ProgressBar::on_begin(const StepReport&, const Tree&) {
  seconds_ = 0;
  rows_ = 0;
  last_printed_ = -1;
}

void ProgressBar::on_step(const StepReport& report, const Tree&, Requests&) {
  if (world()->rank() != 0) return;
  std::string text = fmt::format("epoch {} step {}", report.epoch + 1, report.step);
  if (report.last_step > 0)
    text += fmt::format("/{} [{}]", report.last_step, bar(report.step, report.last_step, std::max(options_.width, 0)));
  for (const auto& [name, value] : report.logs) text += fmt::format(" {} {:.4g}", name, value);
  const double seconds = report.seconds - seconds_;
  if (seconds > 0) text += fmt::format(" {:.0f} rows/s", static_cast<double>(report.rows - rows_) / seconds);
  const std::int64_t made = report.step - report.first_step;
  if (report.last_step > 0 && made > 0) {
    text += fmt::format(", {} left", clock(report.seconds / static_cast<double>(made) *
                                           static_cast<double>(report.last_step - report.step)));
  }
  seconds_ = report.seconds;
  rows_ = report.rows;
  last_printed_ = report.step;
  out_ << (options_.terminal ? "\r" : "") << text << (options_.terminal ? "" : "\n") << std::flush;
}

void ProgressBar::on_end(const StepReport& report, const Tree&, Requests&) {
  if (world()->rank() != 0) return;
  if (options_.terminal && last_printed_ >= 0) out_ << "\n";
  if (!report.stop_reason.empty()) out_ << "stopped at step " << report.step << ": " << report.stop_reason << "\n";
  out_ << std::flush;
}

}  // namespace lockstep::callbacks
