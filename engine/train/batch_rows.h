#pragma once

#include <cstdint>
#include <string>

#include <lockstep/train.h>

// A batch as a tree of arrays with one number of rows.
namespace lockstep::train {

/// The batch, nothing where a leaf of weights holds nothing: weights that are not given are made where a step is traced.
Tree without_empty_weights(Tree batch, const RowWeights& weight);
/// Throws DataError unless all leaves have one number of rows, at least one, and the weights rank 1.
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

}  // namespace lockstep::train
