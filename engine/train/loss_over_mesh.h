#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/losses.h>
#include <lockstep/parallel.h>
#include <lockstep/train.h>

namespace lockstep::train {

inline const std::string batch_axis = "batch";

/// The axes that cut the batch where this is called: of the shards, and inside of a microbatch that of the microbatches.
AxisSet axes_of_batch();
/// psum of a value that may be invariant already (then it is every replica's own).
Array total_over_batch(const Array& x);
/// psum(sum) / psum(weight) in at least float32, 0 where the total weight is 0. Throws MeshError naming `what` where one of
/// the two is reduced and the other is not; both reduced are a ratio already.
Array ratio_over_batch(const Weighted& term, std::string_view what);
/// Both summed over the batch, once, in at least float32. Throws as ratio_over_batch.
Weighted sums_over_batch(const Weighted& term, std::string_view what);
/// The scalar a step differentiates. `totals` are the terms' weights over the whole batch where they are known already.
/// Throws MeshError for a penalty that varies, and as ratio_over_batch.
Array loss_over_batch(const Loss& loss, const std::vector<Array>& totals = {});

/// Trainable variables that declare an aggregation other than none, by path.
using Declarations = std::map<std::string, Aggregation>;

/// The gradients an optimizer sees, from those of the global loss: varying leaves are combined as declared, with
/// `weight` this replica's total weight. Throws AggregationError where such a variable meets several weighted terms,
/// or one that is the same on all replicas.
Tree combine_gradients(const Tree& gradients, const Declarations& declared, const Loss& loss);

}  // namespace lockstep::train
