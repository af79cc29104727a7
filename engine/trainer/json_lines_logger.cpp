#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/callbacks.h>
#include <lockstep/processes.h>

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
    const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    return row.is_object() && row.contains("step") && row["step"].is_number_integer() && row["step"] > 0 &&
           row["step"] <= report.step;
  });
}

void JsonLinesLogger::on_step(const StepReport& report, const Tree&, Requests&) {
  if (file_ == nullptr) return;
  nlohmann::json row = {{"step", report.step}, {"epoch", report.epoch}};
  for (const auto& [name, value] : report.logs) {
    row[name] = std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(fmt::format("{}", value));
  }
  file_->append(row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void JsonLinesLogger::close() { file_.reset(); }

}  // namespace lockstep::callbacks
