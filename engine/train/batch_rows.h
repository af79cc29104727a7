#pragma once

#include <cstdint>
#include <string>

#include <lockstep/train.h>

// A batch as a tree of arrays with one number of rows, and of scalars, each the same for all rows.
namespace lockstep::train {

/// The batch, nothing where a leaf of weights holds nothing: weights that are not given are made where a step is traced.
Tree without_empty_weights(Tree batch, const RowWeights& weight);
/// Whether weights of rows are given.
bool has_weights(const Tree& batch, const RowWeights& weight);
/// Throws DataError unless all leaves but those of rank 0 have one number of rows, at least one, and the weights rank 1.
void check(const Tree& batch, const RowWeights& weight);
/// The same for the usual batch, of which x and y must be given.
void check(const Batch& batch);
std::int64_t rows_of(const Tree& batch);
/// The batch with ones where it has a place for weights but none are given.
Tree with_weights(const Tree& batch, const RowWeights& weight);
/// Where the batch has weights, a real row in rows of weight 0: what these hold reaches nothing.
Tree filled(const Tree& batch, const RowWeights& weight);
/// Repeats the last row with weight 0 until `multiple` divides the rows. Throws DataError where that takes weights that
/// the batch does not have.
Tree padded(const Tree& batch, const RowWeights& weight, std::int64_t multiple);
/// The batch, which has weights, with weight 0 in its last `count` rows.
Tree with_last_rows_padding(const Tree& batch, const RowWeights& weight, std::int64_t count);
/// Rows as microbatches: [parts, rows of a part, ...], or as they are where there is one part.
Tree in_parts(const Tree& batch, std::int64_t parts);
/// The rows of one of them.
Tree one_part(const Tree& stacked, std::int64_t parts);

}  // namespace lockstep::train
