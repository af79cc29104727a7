#include "engine/data/gathered_rows.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>

#include <lockstep/error.h>

namespace lockstep::data {
namespace {

// Padding a batch takes memory for all its rows.
constexpr std::int64_t most_rows = std::int64_t{1} << 40;

template <class T>
std::vector<T> memory_of(std::size_t row_elements, std::int64_t size) {
  std::size_t count = 0;
  if (__builtin_mul_overflow(row_elements, static_cast<std::size_t>(size), &count)) refuse_rows(row_elements, size);
  try {
    return std::vector<T>(count);
  } catch (const std::bad_alloc&) {
    refuse_rows(row_elements * sizeof(T), size);
  } catch (const std::length_error&) {
    refuse_rows(row_elements * sizeof(T), size);
  }
}

}  // namespace

void refuse_row(std::string_view who, std::int64_t i, std::int64_t rows) {
  throw DataError("[" + std::string(who) + "] row " + std::to_string(i) + " of a source of " + std::to_string(rows) +
                  " rows; give rows from 0 on, below that");
}

void refuse_rows(std::size_t row_bytes, std::int64_t size) {
  throw DataError("[loader] a batch of " + std::to_string(size) + " rows of " + std::to_string(row_bytes) +
                  " bytes does not fit the memory; take a smaller batch");
}

void check_dataset(const Dataset& dataset, const std::string& who) {
  const auto check_table = [&](const HostTable& table, const std::string& name) {
    if (table.type.shape.rank() > 0 && std::ssize(table.bytes) == table.type.nbytes()) return;
    throw DataError("[" + who + "] " + name + " is " + to_string(table.type) + " with " +
                    std::to_string(table.bytes.size()) +
                    " bytes; give it dimension 0 for the rows, and the bytes of all its elements");
  };
  check_table(dataset.x, "x");
  check_table(dataset.y, "y");
  if (dataset.x.rows() == dataset.y.rows()) return;
  throw DataError("[" + who + "] x has " + std::to_string(dataset.x.rows()) + " rows, y has " +
                  std::to_string(dataset.y.rows()) + "; give both the same number of rows (dimension 0)");
}

std::int64_t common_rows(const Tree& rows, const std::string& who, bool takes_scalars) {
  const std::vector<std::string> paths = rows.paths();
  const std::vector<Array> leaves = rows.leaves();
  const auto has_rows = [](const Array& leaf) { return leaf.has_value() && leaf.ndim() > 0; };
  const auto first_place = std::ranges::find_if(leaves, has_rows) - leaves.begin();
  if (first_place == std::ssize(leaves)) {
    throw DataError("[" + who + "] the tree of rows has no leaf with rows; give arrays of at least one row");
  }
  const auto first = static_cast<std::size_t>(first_place);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (takes_scalars && leaves[i].has_value() && leaves[i].ndim() == 0) continue;
    if (has_rows(leaves[i]) && leaves[i].dim(0) == leaves[first].dim(0) && leaves[i].dim(0) > 0) continue;
    const std::string what = leaves[i].has_value() ? to_string(leaves[i].type()) : "empty";
    throw DataError("[" + who + "] '" + paths[i] + "' is " + what + ", '" + paths[first] + "' is " +
                    to_string(leaves[first].type()) +
                    "; give all leaves the same number of rows (dimension 0), at least one" +
                    (takes_scalars ? ", or rank 0 where one value is for all rows" : ""));
  }
  return leaves[first].dim(0);
}

BatchRows batch_rows(const LoaderOptions& options, Position at, std::int64_t rows) {
  const std::int64_t end = std::min(at.row + options.batch, rows);
  BatchRows batch;
  batch.rows.resize(static_cast<std::size_t>(end - at.row));
  if (options.shuffle) {
    permute(options.seed, static_cast<std::uint64_t>(at.epoch), rows, at.row, batch.rows);
  } else {
    std::iota(batch.rows.begin(), batch.rows.end(), at.row);
  }
  const std::int64_t left = rows - end;
  const bool ends = left == 0 || (options.drop_last && left < options.batch);
  batch.next = ends ? Position{at.epoch + 1, 0} : Position{at.epoch, end};
  return batch;
}

std::int64_t batches_of(const LoaderOptions& options, std::int64_t rows) {
  return options.drop_last ? rows / options.batch : (rows + options.batch - 1) / options.batch;
}

Position begin_at(const LoaderOptions& options, Position position, std::int64_t rows, const std::string& what) {
  if (position.epoch >= 0 && position.row >= 0 && position.row < rows) {
    const bool is_dropped = options.drop_last && rows - position.row < options.batch;
    return is_dropped ? Position{position.epoch + 1, 0} : position;
  }
  throw DataError("[loader] position epoch " + std::to_string(position.epoch) + " row " + std::to_string(position.row) +
                  " is outside the " + what + " of " + std::to_string(rows) +
                  " rows; the run was saved with other data");
}

void check_gives_batches(const LoaderOptions& options, std::int64_t rows) {
  if (rows < 1) throw DataError("[loader] the data has no rows; give at least one");
  if (options.drop_last && options.batch > rows) {
    throw DataError("[loader] a batch of " + std::to_string(options.batch) + " from " + std::to_string(rows) +
                    " rows; take a smaller batch, or drop_last = false to have the only batch padded");
  }
}

void check_batch(std::int64_t batch) {
  if (batch > 0 && batch <= most_rows) return;
  throw ValueError("[loader] the batch is " + std::to_string(batch) + "; it must be at least 1" +
                   (batch > 0 ? ", and no more than 2^40" : ""));
}

Array gathered(const HostTable& table, const std::vector<std::int64_t>& rows, std::int64_t size) {
  const std::size_t row_bytes = table.bytes.size() / static_cast<std::size_t>(table.rows());
  std::vector<std::byte> bytes = memory_of<std::byte>(row_bytes, size);
  for (std::size_t i = 0; row_bytes > 0 && i < static_cast<std::size_t>(size); ++i) {
    const auto row = static_cast<std::size_t>(rows[std::min(i, rows.size() - 1)]);
    std::memcpy(bytes.data() + i * row_bytes, table.bytes.data() + row * row_bytes, row_bytes);
  }
  return from_bytes({table.type.dtype, table.type.shape.with(0, size), {}}, bytes);
}

Array real_rows(std::size_t real, std::int64_t size) {
  std::vector<float> flags = memory_of<float>(1, size);
  std::fill_n(flags.begin(), real, 1.0F);
  return array(flags);
}

}  // namespace lockstep::data
