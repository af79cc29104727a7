#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/callbacks.h>
#include <lockstep/processes.h>

#include "engine/files/json_reader.h"
#include "engine/trainer/log_file.h"
#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {

JsonLinesLogger::JsonLinesLogger(std::filesystem::path file, std::int64_t every)
    : path_(std::move(file)), every_(every) {
  trainer::check_count("json_lines_logger", "every", every_);
}
JsonLinesLogger::~JsonLinesLogger() = default;

namespace {

/// Of what such a file has; 0 where it is none of its lines.
std::int64_t step_in_object(const json::Parsed& row) {
  const json::Value* found = row.value ? row.value->find("step") : nullptr;
  return found == nullptr ? 0 : found->integer().value_or(0);
}

/// The row of the step that a run has ended with as a longer one would have written it.
std::optional<std::string> taken_back(const std::string& line, const StepReport& resumed) {
  json::Parsed row = json::parse(line);
  if (step_in_object(row) != resumed.step) return line;
  if (resumed.is_extra) return std::nullopt;
  std::erase_if(*row.value->entries(), [](const auto& entry) { return trainer::is_of_validation(entry.first); });
  return row.value->to_string(std::nullopt, json::Utf8::replaced);
}

}  // namespace

void JsonLinesLogger::on_begin(const StepReport& report, const Tree&) {
  if (world()->rank() != 0) return;
  file_ = detail::Owned<detail::LogFile>::make(path_, [&](const std::string& line) {
    const std::int64_t step = step_in_object(json::parse(line));
    return step > 0 && step <= report.step;
  });
}

void JsonLinesLogger::on_resume(const StepReport& report, const Tree&, Requests&) {
  if (file_ == nullptr || !(report.is_extra || report.has_extra_validation)) return;
  file_->rewrite([&](const std::string& line) { return taken_back(line, report); });
}

void JsonLinesLogger::on_step(const StepReport& report, const Tree&, Requests&) {
  if (file_ == nullptr) return;
  json::Value row;
  for (const auto& [name, value] : report.logs) {
    row[name] = std::isfinite(value) ? json::Value(value) : json::Value(fmt::format("{}", value));
  }
  // Behind the logs, so that none of them takes their place.
  row["step"] = report.step;
  row["epoch"] = report.epoch;
  file_->append(row.to_string(std::nullopt, json::Utf8::replaced));
}

void JsonLinesLogger::close() {
  if (const auto file = std::move(file_); file != nullptr) file->finish();
}

}  // namespace lockstep::callbacks
