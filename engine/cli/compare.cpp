#include "engine/cli/compare.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/array.h>
#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/tree.h>

#include "engine/cli/commands.h"
#include "engine/cli/named_options.h"
#include "engine/core/quoting.h"

namespace lockstep::cli {
namespace {

/// Columns of metrics that say how fast a run was, in runs of before they had a file of their own.
bool is_of_time(const std::string& column) { return column == "images_per_second" || column == "seconds"; }

void compare_manifests(const RunRecord& a, const RunRecord& b, Comparison& result) {
  for (const auto& [name, left, right] : different_entries(a.manifest, b.manifest)) {
    result.lines.push_back(fmt::format("manifest: {}: {} | {}", name, left, right));
  }
}

using RowsOfStep = std::map<std::int64_t, std::vector<const std::vector<std::string>*>>;

/// Throws DataError where a column is not there.
std::size_t column_of(const RecordTable& table, const char* name) {
  if (const std::optional<std::size_t> found = table.column(name)) return *found;
  throw DataError(fmt::format("{} is damaged: it has no column '{}'; its columns are {}", table.file.string(), name,
                              fmt::join(table.columns, ", ")));
}

/// Throws DataError for a step that is no whole number.
RowsOfStep by_step(const RecordTable& table) {
  RowsOfStep rows;
  const std::size_t column = column_of(table, "step");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::optional<std::int64_t> step = number_in<std::int64_t>(table.rows[i][column]);
    if (!step) {
      throw DataError(fmt::format("{}: line {} has '{}' as step; expected a whole number", table.file.string(), i + 2,
                                  table.rows[i][column]));
    }
    rows[*step].push_back(&table.rows[i]);
  }
  return rows;
}

/// The first of the steps that both have in which a column that both have differs.
std::optional<std::string> first_difference(const RecordTable& a, const RecordTable& b, const RowsOfStep& left,
                                            const RowsOfStep& right) {
  for (const auto& [step, rows] : left) {
    const auto other = right.find(step);
    if (other == right.end()) continue;
    for (std::size_t i = 0; i < std::min(rows.size(), other->second.size()); ++i) {
      for (std::size_t c = 0; c < a.columns.size(); ++c) {
        const std::optional<std::size_t> same = b.column(a.columns[c]);
        if (!same || is_of_time(a.columns[c])) continue;
        const std::string &x = (*rows[i])[c], &y = (*other->second[i])[*same];
        if (x != y) return fmt::format("step {}: {}: {} | {}", step, a.columns[c], x, y);
      }
    }
  }
  return std::nullopt;
}

void compare_metrics(const RunRecord& a, const RunRecord& b, Comparison& result) {
  if (a.metrics.rows.empty() || b.metrics.rows.empty()) return;
  const RowsOfStep left = by_step(a.metrics), right = by_step(b.metrics);
  if (std::ranges::none_of(left, [&](const auto& row) { return right.contains(row.first); })) {
    result.lines.emplace_back("metrics: no step is in both runs");
    return;
  }
  result.has_compared = true;
  const std::optional<std::string> difference = first_difference(a.metrics, b.metrics, left, right);
  result.is_equal = result.is_equal && !difference;
  result.lines.push_back("metrics: " + (difference ? "first differ at " + *difference
                                                   : std::string("equal at every step that both have")));
}

/// By the hashes of `--trace-bits`.
void compare_traced_bits(const RunRecord& a, const RunRecord& b, Comparison& result) {
  const RowsOfStep left = by_step(a.bits), right = by_step(b.bits);
  const auto hash_in = [](const RecordTable& table) {
    return [variable = column_of(table, "variable"), hash = column_of(table, "sha256")](
               const std::vector<std::string>& row) { return std::pair(row[variable], row[hash]); };
  };
  const auto left_hash = hash_in(a.bits), right_hash = hash_in(b.bits);
  std::int64_t compared = 0;
  for (const auto& [step, rows] : left) {
    const auto other = right.find(step);
    if (other == right.end()) continue;
    ++compared;
    std::map<std::string, std::string> hashes;
    for (const auto* row : other->second) hashes.insert(right_hash(*row));
    for (const auto* row : rows) {
      const auto [variable, hash] = left_hash(*row);
      const auto found = hashes.find(variable);
      if (found != hashes.end() && found->second == hash) continue;
      result.is_equal = false;
      result.lines.push_back(fmt::format("bits: first differ at step {} in '{}'{}", step, variable,
                                         found == hashes.end() ? ", which one run alone has" : ""));
      return;
    }
  }
  result.has_compared = result.has_compared || compared > 0;
  result.lines.push_back(compared == 0 ? "bits: no traced step is in both runs"
                                       : fmt::format("bits: equal at each of {} traced steps", compared));
}

std::optional<std::string> first_different_leaf(const Tree& a, const Tree& b) {
  const auto hash_at = [](const Tree& tree, const std::string& path) {
    return fingerprint(Tree(tree.at(path).array()));
  };
  const std::vector<std::string> right = b.paths();
  for (const std::string& path : a.paths()) {
    if (std::ranges::find(right, path) == right.end()) return fmt::format("'{}', which one run alone has", path);
    if (hash_at(a, path) != hash_at(b, path)) return fmt::format("'{}'", path);
  }
  return std::nullopt;
}

void compare_checkpoints(const RunRecord& a, const RunRecord& b, Comparison& result) {
  std::int64_t compared = 0;
  for (const std::int64_t step : a.saved) {
    if (!std::ranges::binary_search(b.saved, step)) continue;
    ++compared;
    const auto difference = first_different_leaf(checkpoint::restore(a.checkpoint(step)).tree,
                                                 checkpoint::restore(b.checkpoint(step)).tree);
    if (!difference) continue;
    result.is_equal = false;
    result.lines.push_back(fmt::format(
        "bits: first differ in the checkpoints of step {} in {}; runs with --trace-bits say which step it was", step,
        *difference));
    return;
  }
  result.has_compared = result.has_compared || compared > 0;
  result.lines.push_back(compared == 0 ? "bits: no checkpoint of one step is in both runs"
                                       : fmt::format("bits: equal in each of {} checkpoints that both have", compared));
}

}  // namespace

Comparison compare(const RunRecord& a, const RunRecord& b) {
  Comparison result;
  compare_manifests(a, b, result);
  compare_metrics(a, b, result);
  if (!a.bits.rows.empty() && !b.bits.rows.empty()) {
    compare_traced_bits(a, b, result);
  } else {
    compare_checkpoints(a, b, result);
  }
  return result;
}

int compare_runs(const std::filesystem::path& a, const std::filesystem::path& b) {
  const Comparison result = compare(read_run(a), read_run(b));
  for (const std::string& line : result.lines) fmt::print("{}\n", printable(line));
  const bool is_equal = result.is_equal && result.has_compared;
  fmt::print("{}\n", is_equal          ? "the runs are equal, bit for bit, where both have written"
                     : result.is_equal ? "nothing was compared: the runs have logged and saved no step in common"
                                       : "the runs differ");
  return is_equal ? success : failure;
}

}  // namespace lockstep::cli
