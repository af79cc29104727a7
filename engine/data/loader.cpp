#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/data.h>
#include <lockstep/error.h>

namespace lockstep::data {
namespace {

Array gathered(const HostTable& table, const std::vector<std::int64_t>& rows, std::int64_t size) {
  const Shape shape = table.type.shape.with(0, size);
  const std::size_t row_bytes = table.bytes.size() / static_cast<std::size_t>(table.rows());
  std::vector<std::byte> bytes(row_bytes * static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
    const auto row = static_cast<std::size_t>(rows[std::min(i, rows.size() - 1)]);
    std::memcpy(bytes.data() + i * row_bytes, table.bytes.data() + row * row_bytes, row_bytes);
  }
  return from_bytes({table.type.dtype, shape, {}}, bytes);
}

}  // namespace

Batch gather_batch(const Dataset& dataset, const std::vector<std::int64_t>& rows, std::int64_t size) {
  if (rows.empty() || static_cast<std::int64_t>(rows.size()) > size) {
    throw DataError("[gather_batch] " + std::to_string(rows.size()) + " rows for a batch of " + std::to_string(size) +
                    "; give 1 to " + std::to_string(size) + " rows");
  }
  std::vector<float> weight(static_cast<std::size_t>(size), 0.0F);
  std::fill_n(weight.begin(), rows.size(), 1.0F);
  return {gathered(dataset.x, rows, size), gathered(dataset.y, rows, size), array(weight)};
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  if (options_.batch <= 0) {
    throw ValueError("[loader] the batch is " + std::to_string(options_.batch) + "; it must be at least 1");
  }
  if (dataset_->rows() == 0 || (options_.drop_last && options_.batch > dataset_->rows())) {
    throw DataError("[loader] a batch of " + std::to_string(options_.batch) + " from " +
                    std::to_string(dataset_->rows()) +
                    " rows; take a smaller batch, or drop_last = false to have the only batch padded");
  }
}

std::int64_t Loader::batches_per_epoch() const {
  const std::int64_t rows = dataset_->rows();
  return options_.drop_last ? rows / options_.batch : (rows + options_.batch - 1) / options_.batch;
}

Batch Loader::next() {
  const std::int64_t rows = dataset_->rows();
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
  if (position.epoch < 0 || position.row < 0 || position.row >= dataset_->rows()) {
    throw DataError("[loader] position epoch " + std::to_string(position.epoch) + " row " +
                    std::to_string(position.row) + " is outside the data set of " + std::to_string(dataset_->rows()) +
                    " rows; the run was saved with other data");
  }
  position_ = position;
}

}  // namespace lockstep::data
