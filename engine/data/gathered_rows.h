#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/batches.h>
#include <lockstep/sources.h>

namespace lockstep::data {

/// Throws ValueError unless a batch may have so many rows.
void check_batch(std::int64_t batch);
/// Throws DataError where a loader of such options would give no batch of so many rows.
void check_gives_batches(const LoaderOptions& options, std::int64_t rows);

/// The chosen rows of a table with all its bytes, the last one repeated up to `size`. Throws DataError where memory for
/// them is not to be had.
Array gathered(const HostTable& table, const std::vector<std::int64_t>& rows, std::int64_t size);

/// Throws DataError unless x and y are tables of one number of rows with all their bytes.
void check_dataset(const Dataset& dataset, const std::string& who);
/// Throws DataError for null.
void check_source(const SourcePtr& source, const std::string& who);
/// The number of rows that all leaves have. Throws DataError where they differ, or there is none.
std::int64_t common_rows(const Tree& rows, const std::string& who, bool takes_scalars = false);

/// Writes what Permutation(seed, epoch, n) has at `first` and the positions behind it, which are below n.
void permute(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, std::int64_t first, std::span<std::int64_t> rows);

/// Rows of the batch that begins at a position, and where the next one begins.
struct BatchRows {
  std::vector<std::int64_t> rows;
  Position next;
};
BatchRows batch_rows(const LoaderOptions& options, Position at, std::int64_t rows);
std::int64_t batches_of(const LoaderOptions& options, std::int64_t rows);
/// Where a loader that is sent to a position begins: the next epoch where drop_last drops all that is left of this one, as
/// may be behind batches of another size. Throws DataError for a position beyond the rows; `what` says of what.
Position begin_at(const LoaderOptions& options, Position position, std::int64_t rows, const std::string& what);

/// Throws DataError: a source of so many rows has no row `i`.
[[noreturn]] void refuse_row(std::string_view who, std::int64_t i, std::int64_t rows);
/// Throws so unless it has.
inline void check_row(std::string_view who, std::int64_t i, std::int64_t rows) {
  if (i < 0 || i >= rows) refuse_row(who, i, rows);
}

/// Throws DataError: there is no memory for `size` rows of so many bytes.
[[noreturn]] void refuse_rows(std::size_t row_bytes, std::int64_t size);

/// 1 for the first `real` rows, then 0: f32[size].
Array real_rows(std::size_t real, std::int64_t size);

}  // namespace lockstep::data
