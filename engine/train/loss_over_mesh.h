#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/losses.h>
#include <lockstep/parallel.h>
#include <lockstep/train.h>

namespace lockstep::train {

inline const std::string batch_axis = "batch";

/// psum of a value that may be invariant already (then it is every replica's own).
Array total_over_batch(const Array& x);
/// psum(sum) / psum(weight) in at least float32, 0 where the total weight is 0. Throws MeshError naming `what` where one of
/// the two is reduced and the other is not; both reduced are a ratio already.
Array ratio_over_batch(const Weighted& term, std::string_view what);
/// Both summed over the batch, once, in at least float32. Throws as ratio_over_batch.
Weighted sums_over_batch(const Weighted& term, std::string_view what);
/// The scalar a step differentiates. Throws MeshError for a penalty that varies, and as ratio_over_batch.
Array loss_over_batch(const Loss& loss);

/// The batch, which has weights, with a real row's x and y in rows of weight 0.
Batch filled(const Batch& batch);
/// Repeats the last row with weight 0 until `multiple` divides the rows; gives missing weights as ones.
Batch padded(Batch batch, std::int64_t multiple);
/// Rows [part * n / parts, (part + 1) * n / parts) of a shard.
Batch microbatch(const Batch& batch, std::int64_t part, std::int64_t parts);

/// Trainable variables that declare an aggregation other than none, by path.
using Declarations = std::map<std::string, Aggregation>;

/// The gradients an optimizer sees, from those of the global loss: varying leaves are combined as declared, with
/// `weight` this replica's total weight. Throws AggregationError where such a variable meets several weighted terms,
/// or one that is the same on all replicas.
Tree combine_gradients(const Tree& gradients, const Declarations& declared, const Loss& loss);

}  // namespace lockstep::train
