#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/callbacks.h>
#include <lockstep/checkpoint.h>
#include <lockstep/processes.h>

#include "engine/trainer/log_file.h"
#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {
namespace {

/// Of a row of such a file.
std::int64_t step_of_bits(const std::string& row) { return std::strtoll(row.c_str(), nullptr, 10); }

}  // namespace

BitTrace::BitTrace(std::filesystem::path file, std::int64_t every) : path_(std::move(file)), every_(every) {
  trainer::check_count("bit_trace", "every", every_);
}
BitTrace::~BitTrace() = default;

void BitTrace::on_begin(const StepReport& report, const Tree&) {
  if (world()->rank() != 0) return;
  file_ = detail::Owned<detail::LogFile>::make(path_, [&](const std::string& line) {
    if (report.step == 0) return false;
    return line.starts_with("step,") || step_of_bits(line) <= report.step;
  });
  if (file_->is_empty()) file_->append("step,variable,sha256");
}

void BitTrace::on_resume(const StepReport& report, const Tree&, Requests&) {
  if (file_ == nullptr || !report.is_extra) return;
  file_->rewrite(
      [&](const std::string& line) { return step_of_bits(line) == report.step ? std::nullopt : std::optional(line); });
}

void BitTrace::on_step(const StepReport& report, const Tree& state, Requests&) {
  std::string lines;
  for (const std::string& path : state.paths()) {
    const std::string hash = fingerprint(Tree(state.at(path).array()));  // all processes, where it lies cut
    lines += fmt::format("{}{},{},{}", lines.empty() ? "" : "\n", report.step, detail::csv_cell(path), hash);
  }
  if (file_ != nullptr) file_->append(lines);
}

void BitTrace::close() {
  if (const auto file = std::move(file_); file != nullptr) file->finish();
}

}  // namespace lockstep::callbacks
