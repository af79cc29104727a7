#include "engine/train/batch_rows.h"

#include <algorithm>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/losses.h>
#include <lockstep/ops.h>

namespace lockstep::train {
namespace {

bool has_place_for(const Tree& batch, const RowWeights& weight) {
  return !weight.path().empty() && batch.contains(weight.path());
}

/// A leaf of rank 0 is the same for all rows.
bool has_rows(const Array& x) { return x.ndim() > 0; }

std::int64_t rows_of_leaf(const Array& x) { return has_rows(x) ? x.dim(0) : 0; }

/// "image is f32[4,2], label i32[3]".
std::string types_of_leaves(const Tree& batch) {
  const std::vector<std::string> paths = batch.paths();
  const std::vector<Array> leaves = batch.leaves();
  std::string text;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    text += (i == 0 ? "" : ", ") + (paths[i].empty() ? "its one leaf" : paths[i]) + (i == 0 ? " is " : " ") +
            to_string(leaves[i].type());
  }
  return text;
}

Array repeated_last_row(const Array& x, std::int64_t times) {
  const std::int64_t rows = x.dim(0);
  const Array last = slice_in_dim(x, rows - 1, rows, 0);
  return concatenate({x, broadcast_to(last, x.shape().with(0, times))}, 0);
}

}  // namespace

Tree without_empty_weights(Tree batch, const RowWeights& weight) {
  if (!has_place_for(batch, weight)) return batch;
  const Tree& leaf = batch.at(weight.path());
  return leaf.is_leaf() && !leaf.array().has_value() ? batch.with(weight.path(), Tree()) : batch;
}

bool has_weights(const Tree& batch, const RowWeights& weight) {
  if (!has_place_for(batch, weight)) return false;
  const Tree& leaf = batch.at(weight.path());
  return leaf.is_leaf() && leaf.array().has_value();
}

void check(const Tree& batch, const RowWeights& weight) {
  const std::vector<Array> leaves = batch.leaves();
  if (leaves.empty()) throw DataError("[batch] the batch has no leaf; give arrays of at least one row");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].has_value()) continue;
    throw DataError("[batch] '" + batch.paths()[i] + "' is empty; give it as many rows as the other leaves");
  }
  const std::int64_t rows = rows_of(batch);
  bool fits = rows > 0;
  for (const Array& leaf : leaves) fits = fits && (!has_rows(leaf) || rows_of_leaf(leaf) == rows);
  if (has_weights(batch, weight)) fits = fits && batch.at(weight.path()).array().ndim() == 1;
  if (fits) {
    if (has_weights(batch, weight)) detail::expect_row_weights("batch", batch.at(weight.path()).array());
    return;
  }
  throw DataError(
      "[batch] " + types_of_leaves(batch) +
      "; give all leaves the same number of rows (dimension 0), at least one, or rank 0 where one value is for "
      "all rows; weights are of rank 1");
}

void check(const Batch& batch) {
  if (!batch.x.has_value() || !batch.y.has_value() || batch.x.ndim() == 0 || batch.x.dim(0) == 0) {
    throw DataError("[batch] x or y is empty; give at least one row");
  }
  const std::int64_t rows = batch.x.dim(0);
  const bool has_weight = batch.weight.has_value();
  if (rows_of_leaf(batch.y) == rows && (!has_weight || (batch.weight.ndim() == 1 && batch.weight.dim(0) == rows))) {
    detail::expect_row_weights("batch", batch.weight);
    return;
  }
  const ArrayType weight = has_weight ? batch.weight.type() : ArrayType{float32, {rows}, {}};
  throw DataError("[batch] x is " + to_string(batch.x.type()) + ", y " + to_string(batch.y.type()) + ", weight " +
                  to_string(weight) + "; give all three the same number of rows, weight of rank 1");
}

std::int64_t rows_of(const Tree& batch) {
  const std::vector<Array> leaves = batch.leaves();
  const auto first = std::ranges::find_if(leaves, has_rows);
  return first == leaves.end() ? 0 : rows_of_leaf(*first);
}

Tree with_weights(const Tree& batch, const RowWeights& weight) {
  if (!has_place_for(batch, weight) || has_weights(batch, weight)) return batch;
  return batch.with(weight.path(), Tree(ones({rows_of(batch)})));
}

Tree filled(const Tree& batch, const RowWeights& weight) {
  if (!has_weights(batch, weight)) return batch;
  const Tree& given = batch.at(weight.path());
  return fill_masked_rows(batch, given.array()).with(weight.path(), given);
}

Tree padded(const Tree& batch, const RowWeights& weight, std::int64_t multiple) {
  const std::int64_t missing = (multiple - rows_of(batch) % multiple) % multiple;
  if (missing == 0) return batch;
  if (!has_weights(batch, weight)) {
    throw DataError(
        "[batch] " + std::to_string(rows_of(batch)) + " rows cannot be cut into " + std::to_string(multiple) +
        " equal parts (shards times microbatches), and the batch has no weights of rows by which padding "
        "could be told apart; give as many rows as are a multiple, fewer shards or microbatches, or a leaf "
        "of weights, f32[rows]: '" +
        (weight.path().empty() ? "weight" : weight.path()) + "', or what DataParallelOptions::weight names");
  }
  const auto longer = [&](const std::string& path, const Array& x) {
    if (path == weight.path()) return concatenate({x, zeros({missing}, x.dtype())}, 0);
    return has_rows(x) ? repeated_last_row(x, missing) : x;
  };
  return map_with_path(longer, batch);
}

Tree with_last_rows_padding(const Tree& batch, const RowWeights& weight, std::int64_t count) {
  const Array given = batch.at(weight.path()).array();
  const std::int64_t rows = given.dim(0);
  return batch.with(weight.path(), Tree(where(arange(rows) < rows - count, given, 0)));
}

Tree in_parts(const Tree& batch, std::int64_t parts) {
  if (parts == 1) return batch;
  const auto stacked = [&](const Array& x) {
    return has_rows(x) ? reshape(x, x.shape().with(0, x.dim(0) / parts).insert(0, parts).to_vector()) : x;
  };
  return map(stacked, batch);
}

Tree one_part(const Tree& stacked, std::int64_t parts) {
  if (parts == 1) return stacked;
  return map([](const Array& x) { return has_rows(x) ? squeeze(slice_in_dim(x, 0, 1, 0), {0}) : x; }, stacked);
}

}  // namespace lockstep::train
