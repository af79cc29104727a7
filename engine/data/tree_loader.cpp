#include <algorithm>
#include <utility>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>

#include "engine/data/gathered_rows.h"

namespace lockstep::data {
namespace {

HostTable table_of(const Array& x) { return {{x.dtype(), x.shape(), {}}, x.to_bytes()}; }

/// Throws ValueError where std::move took the tables away.
std::int64_t rows_of(const std::vector<HostTable>& tables) {
  if (tables.empty()) lockstep::detail::refuse_moved_from("[loader]");
  const auto first = std::ranges::find_if(tables, [](const HostTable& table) { return table.type.shape.rank() > 0; });
  return first->rows();
}

/// A leaf of rank 0 is the same in every batch.
bool has_rows(const Array& leaf) { return leaf.has_value() && leaf.ndim() > 0; }

/// The number of rows that all leaves have.
std::int64_t common_rows(const Tree& rows) {
  const std::vector<std::string> paths = rows.paths();
  const std::vector<Array> leaves = rows.leaves();
  const auto first_place = std::ranges::find_if(leaves, has_rows) - leaves.begin();
  if (first_place == std::ssize(leaves)) {
    throw DataError("[loader] the tree of rows has no leaf with rows; give arrays of at least one row");
  }
  const auto first = static_cast<std::size_t>(first_place);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].has_value() && leaves[i].ndim() == 0) continue;
    if (has_rows(leaves[i]) && leaves[i].dim(0) == leaves[first].dim(0) && leaves[i].dim(0) > 0) continue;
    const std::string what = leaves[i].has_value() ? to_string(leaves[i].type()) : "empty";
    throw DataError("[loader] '" + paths[i] + "' is " + what + ", '" + paths[first] + "' is " +
                    to_string(leaves[first].type()) +
                    "; give all leaves the same number of rows (dimension 0), at least one, or rank 0 where one value "
                    "is for all rows");
  }
  return leaves[first].dim(0);
}

}  // namespace

TreeLoader::TreeLoader(Tree rows, LoaderOptions options, std::string weight) : options_(options) {
  check_batch(options_.batch);
  const bool has_place = !weight.empty() && rows.contains(weight);
  if (has_place && rows.at(weight).is_leaf() && !rows.at(weight).array().has_value()) rows = rows.with(weight, Tree());
  const std::int64_t count = common_rows(rows);
  if (options_.drop_last && options_.batch > count) {
    throw DataError("[loader] a batch of " + std::to_string(options_.batch) + " from " + std::to_string(count) +
                    " rows; take a smaller batch, or drop_last = false to have the only batch padded");
  }
  if (!options_.drop_last && !has_place && count % options_.batch != 0) {
    throw DataError(
        "[loader] the last batch of " + std::to_string(count) + " rows has " + std::to_string(count % options_.batch) +
        " of " + std::to_string(options_.batch) + ", and the tree has no leaf for weights ('" + weight +
        "') that would tell padding apart; give it one, a batch that divides the rows, or drop_last = true");
  }
  if (has_place && !rows.at(weight).is_leaf()) rows = rows.with(weight, Tree(ones({count})));
  if (has_place) weight_ = std::move(weight);
  for (const Array& leaf : rows.leaves()) tables_.push_back(table_of(leaf));
  structure_ = map([](const Array&) { return Array(); }, rows);
}

std::int64_t TreeLoader::batches_per_epoch() const {
  const std::int64_t rows = rows_of(tables_);
  return options_.drop_last ? rows / options_.batch : (rows + options_.batch - 1) / options_.batch;
}

Tree TreeLoader::next_tree() {
  const std::int64_t rows = rows_of(tables_);
  const std::int64_t end = std::min(position_.row + options_.batch, rows);
  const Permutation order(options_.seed, static_cast<std::uint64_t>(position_.epoch), rows);
  std::vector<std::int64_t> chosen;
  for (std::int64_t at = position_.row; at < end; ++at) chosen.push_back(options_.shuffle ? order(at) : at);
  position_.row = end;
  const std::int64_t left = rows - position_.row;
  if (left == 0 || (options_.drop_last && left < options_.batch)) position_ = {position_.epoch + 1, 0};
  std::vector<Array> leaves;
  for (const HostTable& table : tables_) {
    const bool is_scalar = table.type.shape.rank() == 0;
    leaves.push_back(is_scalar ? from_bytes(table.type, table.bytes) : gathered(table, chosen, options_.batch));
  }
  Tree batch = structure_.unflatten(std::move(leaves));
  if (std::ssize(chosen) == options_.batch) return batch;
  const Array& weight = batch.at(weight_).array();
  return batch.with(weight_, Tree(where(real_rows(chosen.size(), options_.batch) != 0, weight, 0)));
}

void TreeLoader::seek(Position position) {
  if (position.epoch < 0 || position.row < 0 || position.row >= rows_of(tables_)) {
    throw DataError("[loader] position epoch " + std::to_string(position.epoch) + " row " +
                    std::to_string(position.row) + " is outside the data of " + std::to_string(rows_of(tables_)) +
                    " rows; the run was saved with other data");
  }
  position_ = position;
}

}  // namespace lockstep::data
