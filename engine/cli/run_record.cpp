#include "engine/cli/run_record.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include <lockstep/checkpoint_manager.h>
#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/cli/named_options.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// A run that has not written a table yet has an empty one.
RecordTable read_table(const fs::path& path) {
  RecordTable table{path, {}, {}};
  std::error_code error;
  if ((!fs::exists(path, error) && !error) || (fs::is_empty(path, error) && !error)) return table;
  const data::CsvTable read = data::read_csv(path);
  table.columns = read.columns();
  for (std::int64_t row = 0; row < read.rows(); ++row) {
    table.rows.emplace_back();
    for (const std::string& column : table.columns) table.rows.back().emplace_back(read.text(row, column));
  }
  return table;
}

Manifest read_manifest(const fs::path& run) {
  const fs::path path = run / "manifest.json";
  std::error_code error;
  if (!fs::exists(path, error) && !error) {
    throw DataError(fmt::format("{} is not there: {} is no run's folder; name one that `lockstep train --run` has made",
                                path.string(), run.string()));
  }
  std::optional<Manifest> manifest = written_manifest(run);
  if (!manifest) throw DataError(path.string() + " is damaged: it is no JSON object");
  return *std::move(manifest);
}

checkpoint::Manager checkpoints_of(const fs::path& run) { return checkpoint::Manager(run / "checkpoints"); }

}  // namespace

std::optional<std::size_t> RecordTable::column(const std::string& name) const {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

fs::path RunRecord::checkpoint(std::int64_t step) const { return checkpoints_of(folder).folder_of(step); }

const RecordTable* RunRecord::table_with(const std::string& column) const {
  for (const RecordTable* table : {&metrics, &speed}) {
    if (table->column(column)) return table;
  }
  return nullptr;
}

RunRecord read_run(const fs::path& folder) {
  if (const std::string found = foreign_in(folder); !found.empty()) throw DataError(found);
  return {folder,
          read_manifest(folder),
          read_table(folder / "metrics.csv"),
          read_table(folder / "speed.csv"),
          read_table(folder / "bits.csv"),
          checkpoints_of(folder).steps()};
}

std::vector<std::optional<double>> numbers_of(const RecordTable& table, const std::string& column) {
  std::vector<std::optional<double>> numbers;
  const std::optional<std::size_t> at = table.column(column);
  if (!at) return numbers;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string& cell = table.rows[row][*at];
    const std::optional<double> value = number_in<double>(cell);
    if (!cell.empty() && !value) {
      throw DataError(
          fmt::format("{}: line {} has '{}' as {}; expected a number", table.file.string(), row + 2, cell, column));
    }
    numbers.push_back(value);
  }
  return numbers;
}

}  // namespace lockstep::cli
