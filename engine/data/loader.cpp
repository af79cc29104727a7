#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/moved_from.h>

#include "engine/data/gathered_rows.h"

namespace lockstep::data {

using lockstep::detail::held;

namespace {

/// Throws DataError unless x and y are tables of one number of rows with all their bytes.
void check(const Dataset& dataset, const std::string& who) {
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

}  // namespace

Batch gather_batch(const Dataset& dataset, const std::vector<std::int64_t>& rows, std::int64_t size) {
  check(dataset, "gather_batch");
  if (rows.empty() || static_cast<std::int64_t>(rows.size()) > size) {
    throw DataError("[gather_batch] " + std::to_string(rows.size()) + " rows for a batch of " + std::to_string(size) +
                    "; give 1 to " + std::to_string(size) + " rows");
  }
  for (const std::int64_t row : rows) {
    if (row >= 0 && row < dataset.rows()) continue;
    throw DataError("[gather_batch] row " + std::to_string(row) + " of a data set of " +
                    std::to_string(dataset.rows()) + " rows; give rows from 0 on, below that");
  }
  return {gathered(dataset.x, rows, size), gathered(dataset.y, rows, size), real_rows(rows.size(), size)};
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  check_batch(options_.batch);
  if (dataset_ == nullptr) {
    throw DataError("[loader] the data set is null; give one that was made, by std::make_shared<Dataset>(...) say");
  }
  check(*dataset_, "loader");
  if (dataset_->rows() == 0 || (options_.drop_last && options_.batch > dataset_->rows())) {
    throw DataError("[loader] a batch of " + std::to_string(options_.batch) + " from " +
                    std::to_string(dataset_->rows()) +
                    " rows; take a smaller batch, or drop_last = false to have the only batch padded");
  }
}

std::int64_t Loader::batches_per_epoch() const {
  const std::int64_t rows = held(dataset_, "[loader]").rows();
  return options_.drop_last ? rows / options_.batch : (rows + options_.batch - 1) / options_.batch;
}

Batch Loader::next() {
  const std::int64_t rows = held(dataset_, "[loader]").rows();
  const std::int64_t end = std::min(position_.row + options_.batch, rows);
  const Permutation order(options_.seed, static_cast<std::uint64_t>(position_.epoch), rows);
  std::vector<std::int64_t> chosen;
  for (std::int64_t at = position_.row; at < end; ++at) chosen.push_back(options_.shuffle ? order(at) : at);
  position_.row = end;
  const std::int64_t left = rows - position_.row;
  if (left == 0 || (options_.drop_last && left < options_.batch)) position_ = {position_.epoch + 1, 0};
  return gather_batch(*dataset_, chosen, options_.batch);
}

void Loader::seek(Position position) {
  if (position.epoch < 0 || position.row < 0 || position.row >= held(dataset_, "[loader]").rows()) {
    throw DataError("[loader] position epoch " + std::to_string(position.epoch) + " row " +
                    std::to_string(position.row) + " is outside the data set of " +
                    std::to_string(held(dataset_, "[loader]").rows()) + " rows; the run was saved with other data");
  }
  position_ = position;
}

}  // namespace lockstep::data
