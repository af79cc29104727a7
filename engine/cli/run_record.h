#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/run_folder.h"

namespace lockstep::cli {

/// A CSV file of numbers that a run has written, as text: what is compared are bits.
struct RecordTable {
  std::filesystem::path file;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;

  /// Where a column stands; nothing where there is none of that name.
  std::optional<std::size_t> column(const std::string& name) const;
};

/// What a run's folder says of it.
struct RunRecord {
  std::filesystem::path folder;
  Manifest manifest;
  RecordTable metrics;              ///< The same in each run of the same bits.
  RecordTable speed;                ///< Rows a second, by step.
  RecordTable bits;                 ///< Of `--trace-bits`: step, variable, sha256. Empty where there is none.
  std::vector<std::int64_t> saved;  ///< Steps of checkpoints, in order.
  std::filesystem::path checkpoint(std::int64_t step) const;
  /// Metrics or speed, whichever has such a column; nothing where neither does.
  const RecordTable* table_with(const std::string& column) const;
};

/// Throws DataError naming the folder where no run was written, and the file and line of one that is damaged.
RunRecord read_run(const std::filesystem::path& folder);

/// A column as numbers; nothing where a cell is empty. Throws DataError naming file, row and column of another text.
std::vector<std::optional<double>> numbers_of(const RecordTable& table, const std::string& column);

}  // namespace lockstep::cli
