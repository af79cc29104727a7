#include <string>
#include <utility>

#include <lockstep/batches.h>
#include <lockstep/error.h>
#include <lockstep/moved_from.h>

#include "engine/data/gathered_rows.h"

namespace lockstep {
template class detail::StructTree<Batch>;
}  // namespace lockstep

namespace lockstep::data {

Batch gather_batch(const Dataset& dataset, const std::vector<std::int64_t>& rows, std::int64_t size) {
  check_dataset(dataset, "gather_batch");
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
  check_dataset(*dataset_, "loader");
  check_gives_batches(options_, dataset_->rows());
}

std::int64_t Loader::batches_per_epoch() const {
  return batches_of(options_, lockstep::detail::held(dataset_, "[loader]").rows());
}

Batch Loader::next() {
  const BatchRows batch = batch_rows(options_, position_, lockstep::detail::held(dataset_, "[loader]").rows());
  position_ = batch.next;
  return gather_batch(*dataset_, batch.rows, options_.batch);
}

void Loader::seek(Position position) {
  position_ = begin_at(options_, position, lockstep::detail::held(dataset_, "[loader]").rows(), "data set");
}

}  // namespace lockstep::data
