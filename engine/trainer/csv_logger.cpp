#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/callbacks.h>
#include <lockstep/processes.h>

#include "engine/trainer/log_file.h"
#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {
namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::optional<std::int64_t> step_in_cell(const std::string& cell) {
  std::int64_t step = 0;
  const char* end = cell.data() + cell.size();
  const auto [last, error] = std::from_chars(cell.data(), end, step);
  return error == std::errc() && last == end && !cell.empty() ? std::optional(step) : std::nullopt;
}

/// Columns come to be with their first number.
void remove_unused_validations(std::vector<std::vector<std::string>>& table) {
  for (std::size_t i = table.empty() ? 0 : table.front().size(); i-- > 0;) {
    const bool is_used =
        std::any_of(table.begin() + 1, table.end(), [&](const auto& cells) { return !cells[i].empty(); });
    if (is_used || !trainer::is_of_validation(table.front()[i])) continue;
    for (auto& cells : table) cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::vector<std::string> all_as_cells(std::vector<std::string> names) {
  for (std::string& name : names) name = detail::csv_cell(name);
  return names;
}

}  // namespace

CsvLogger::CsvLogger(std::filesystem::path file, CsvLoggerOptions options)
    : path_(std::move(file)), options_(std::move(options)) {
  trainer::check_count("csv_logger", "every", options_.every);
}
CsvLogger::~CsvLogger() = default;

void CsvLogger::on_begin(const StepReport& report, const Tree&) {
  seconds_ = 0;
  rows_ = 0;
  if (world()->rank() != 0) return;
  columns_ = all_as_cells(options_.columns);
  bool is_header = true;
  std::size_t step_column = 0;
  file_ = detail::Owned<detail::LogFile>::make(path_, [&](const std::string& line) {
    const std::vector<std::string> cells = cells_of(line);
    if (std::exchange(is_header, false)) {
      const auto found = std::ranges::find(cells, "step");
      if (report.step == 0 || found == cells.end()) return false;
      step_column = static_cast<std::size_t>(found - cells.begin());
      columns_ = cells;
      return true;
    }
    const auto step = step_column < cells.size() ? step_in_cell(cells[step_column]) : std::nullopt;
    return step && *step <= report.step && *step > 0 && report.step > 0;
  });
  begin_without_rows();
}

void CsvLogger::begin_without_rows() {
  if (file_->lines().size() != 1) return;
  file_->rewrite(std::vector<std::string>());
  columns_ = all_as_cells(options_.columns);
}

void CsvLogger::on_resume(const StepReport& report, const Tree&, Requests&) {
  const auto column = std::ranges::find(columns_, "step");
  if (file_ == nullptr || column == columns_.end() || !(report.is_extra || report.has_extra_validation)) return;
  const auto place = static_cast<std::size_t>(column - columns_.begin());
  std::vector<std::vector<std::string>> table;
  for (const std::string& line : file_->lines()) {
    table.push_back(cells_of(line));
    std::vector<std::string>& cells = table.back();
    cells.resize(columns_.size());
    if (step_in_cell(cells[place]) != report.step) continue;
    if (report.is_extra) {
      table.pop_back();
      continue;
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (trainer::is_of_validation(columns_[i])) cells[i].clear();
    }
  }
  if (options_.columns.empty()) remove_unused_validations(table);
  columns_ = table.empty() ? columns_ : table.front();
  std::vector<std::string> lines;
  for (const std::vector<std::string>& cells : table) lines.push_back(fmt::format("{}", fmt::join(cells, ",")));
  file_->rewrite(lines);
  begin_without_rows();
}

void CsvLogger::on_step(const StepReport& report, const Tree&, Requests&) {
  if (file_ == nullptr) return;
  std::map<std::string, std::string> row = {{"step", fmt::format("{}", report.step)},
                                            {"epoch", fmt::format("{}", report.epoch)}};
  for (const auto& [name, value] : report.logs) row.emplace(detail::csv_cell(name), fmt::format("{}", value));
  if (!options_.rate.empty()) {
    const double seconds = report.seconds - seconds_;
    row.emplace(detail::csv_cell(options_.rate),
                fmt::format("{}", seconds > 0 ? static_cast<double>(report.rows - rows_) / seconds : 0));
    seconds_ = report.seconds;
    rows_ = report.rows;
  }
  if (columns_.empty()) columns_ = {"step", "epoch"};
  const std::size_t known = columns_.size();
  if (options_.columns.empty()) {
    for (const auto& [name, value] : row) {
      if (std::ranges::find(columns_, name) == columns_.end()) columns_.push_back(name);
    }
  }
  if (file_->is_empty()) {
    file_->append(fmt::format("{}", fmt::join(columns_, ",")));
  } else if (columns_.size() > known) {  // rows before have nothing there
    std::vector<std::string> lines = file_->lines();
    lines.front() = fmt::format("{}", fmt::join(columns_, ","));
    for (std::size_t i = 1; i < lines.size(); ++i) lines[i] += std::string(columns_.size() - known, ',');
    file_->rewrite(lines);
  }
  std::vector<std::string> cells;
  for (const std::string& name : columns_) {
    const auto found = row.find(name);
    cells.push_back(found == row.end() ? "" : found->second);
  }
  file_->append(fmt::format("{}", fmt::join(cells, ",")));
}

void CsvLogger::close() {
  if (const auto file = std::move(file_); file != nullptr) file->finish();
}

}  // namespace lockstep::callbacks
