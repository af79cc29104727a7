#include <algorithm>
#include <utility>

#include <lockstep/batches.h>
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

}  // namespace

TreeLoader::TreeLoader(Tree rows, LoaderOptions options, std::string weight) : options_(options) {
  check_batch(options_.batch);
  const bool has_place = !weight.empty() && rows.contains(weight);
  if (has_place && rows.at(weight).is_leaf() && !rows.at(weight).array().has_value()) rows = rows.with(weight, Tree());
  const std::int64_t count = common_rows(rows, "loader", true);
  check_gives_batches(options_, count);
  if (!options_.drop_last && !has_place && count % options_.batch != 0) {
    throw DataError(
        "[loader] the last batch of " + std::to_string(count) + " rows has " + std::to_string(count % options_.batch) +
        " of " + std::to_string(options_.batch) + ", and the tree has no leaf for weights ('" + weight +
        "') that would tell padding apart; give it one, a batch that divides the rows, or drop_last = true");
  }
  if (has_place && !rows.at(weight).is_leaf()) rows = rows.with(weight, Tree(ones({count})));
  if (has_place) weight_ = std::move(weight);
  std::vector<HostTable> tables;
  for (const Array& leaf : rows.leaves()) tables.push_back(table_of(leaf));
  tables_ = std::make_shared<const std::vector<HostTable>>(std::move(tables));
  structure_ = map([](const Array&) { return Array(); }, rows);
}

std::int64_t TreeLoader::batches_per_epoch() const {
  return batches_of(options_, rows_of(lockstep::detail::held(tables_, "[loader]")));
}

Tree TreeLoader::next_tree() {
  const auto [chosen, after] = batch_rows(options_, position_, rows_of(lockstep::detail::held(tables_, "[loader]")));
  position_ = after;
  std::vector<Array> leaves;
  for (const HostTable& table : lockstep::detail::held(tables_, "[loader]")) {
    const bool is_scalar = table.type.shape.rank() == 0;
    leaves.push_back(is_scalar ? from_bytes(table.type, table.bytes) : gathered(table, chosen, options_.batch));
  }
  Tree batch = structure_.unflatten(std::move(leaves));
  if (std::ssize(chosen) == options_.batch) return batch;
  const Array& weight = batch.at(weight_).array();
  return batch.with(weight_, Tree(where(real_rows(chosen.size(), options_.batch) != 0, weight, 0)));
}

void TreeLoader::seek(Position position) {
  position_ = begin_at(options_, position, rows_of(lockstep::detail::held(tables_, "[loader]")), "data");
}

}  // namespace lockstep::data
