#include "engine/cli/run_record.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  if (!line.empty() && line.back() == ',') cells.emplace_back();
  return cells;
}

RecordTable read_table(const fs::path& path) {
  RecordTable table;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return table;
  table.columns = cells_of(line);
  for (std::int64_t number = 2; std::getline(file, line); ++number) {
    std::vector<std::string> cells = cells_of(line);
    if (cells.size() != table.columns.size()) {
      throw DataError(fmt::format("{}: line {} has {} cells; expected {}, as its first line", path.string(), number,
                                  cells.size(), table.columns.size()));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::map<std::string, std::string> read_manifest(const fs::path& path) {
  std::ifstream file(path);
  if (!file) {
    throw DataError(fmt::format("{} is not there: {} is no run's folder; name one that `lockstep train --run` has made",
                                path.string(), path.parent_path().string()));
  }
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) throw DataError(path.string() + " is damaged: it is no JSON object");
  std::map<std::string, std::string> manifest;
  for (const auto& [key, value] : json.items()) {
    manifest.emplace(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return manifest;
}

std::vector<std::int64_t> saved_steps(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view prefix = "step-";
    std::int64_t step = 0;
    if (!name.starts_with(prefix)) continue;
    const auto [end, code] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
    if (code == std::errc() && end == name.data() + name.size()) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

}  // namespace

std::optional<std::size_t> RecordTable::column(const std::string& name) const {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

fs::path RunRecord::checkpoint(std::int64_t step) const {
  return folder / "checkpoints" / ("step-" + std::to_string(step));
}

RunRecord read_run(const fs::path& folder) {
  return {folder, read_manifest(folder / "manifest.json"), read_table(folder / "metrics.csv"),
          read_table(folder / "bits.csv"), saved_steps(folder / "checkpoints")};
}

std::vector<std::optional<double>> numbers_of(const RunRecord& run, const std::string& column) {
  std::vector<std::optional<double>> numbers;
  const std::optional<std::size_t> at = run.metrics.column(column);
  if (!at) return numbers;
  for (std::size_t row = 0; row < run.metrics.rows.size(); ++row) {
    const std::string& cell = run.metrics.rows[row][*at];
    double value = 0;
    const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const bool is_number = code == std::errc() && end == cell.data() + cell.size();
    if (!cell.empty() && !is_number) {
      throw DataError(fmt::format("{}: line {} has '{}' as {}; expected a number",
                                  (run.folder / "metrics.csv").string(), row + 2, cell, column));
    }
    numbers.push_back(is_number ? std::optional(value) : std::nullopt);
  }
  return numbers;
}

}  // namespace lockstep::cli
