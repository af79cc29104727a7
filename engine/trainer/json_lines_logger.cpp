#include <cmath>
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

void JsonLinesLogger::on_begin(const StepReport& report, const Tree&) {
  if (world()->rank() != 0) return;
  file_ = std::make_unique<detail::LogFile>(path_, [&](const std::string& line) {
    const json::Parsed row = json::parse(line);
    const json::Value* found = row.value ? row.value->find("step") : nullptr;
    const std::int64_t step = found == nullptr ? 0 : found->integer().value_or(0);
    return step > 0 && step <= report.step;
  });
}

void JsonLinesLogger::on_step(const StepReport& report, const Tree&, Requests&) {
  if (file_ == nullptr) return;
  json::Value row;
  row["step"] = report.step;
  row["epoch"] = report.epoch;
  for (const auto& [name, value] : report.logs) {
    row[name] = std::isfinite(value) ? json::Value(value) : json::Value(fmt::format("{}", value));
  }
  file_->append(row.to_string(std::nullopt, json::Utf8::replaced));
}

void JsonLinesLogger::close() { file_.reset(); }

}  // namespace lockstep::callbacks
