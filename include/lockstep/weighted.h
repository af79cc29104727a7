#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/named.h>
#include <lockstep/tree.h>

// What losses and metrics are made of: sums of weighted values beside the weights.
namespace lockstep {

/// A mean that is not divided yet: `sum` of weighted values and the total `weight`, of this shard's rows. Over the mesh
/// it is psum(sum) / psum(weight); a total weight of 0 gives 0 with gradient 0. Where both are the same on all replicas
/// they are totals already, and it is sum / weight. One of the two alone is an error (`check_reduced_alike`).
struct Weighted {
  Array sum;
  Array weight;
};
LOCKSTEP_TREE(Weighted, sum, weight);
extern template class LOCKSTEP_API detail::StructTree<Weighted>;
extern template class LOCKSTEP_API Named<Weighted>;

/// Throws MeshError, beginning with `[what]`, where sum and weight do not vary along the same mesh axes: one of them is
/// reduced, or a constant, and the other is this shard's part, so the ratio would be off by the number of replicas.
LOCKSTEP_API void check_reduced_alike(std::string_view what, const Weighted& weighted);

/// A batch whose rows of weight 0 hold what the first row with a weight holds, by select, so that nothing of what they
/// held (NaN, infinity, an index out of range) reaches a value or a derivative. `rows` is any tree of leaves [B, ...]
/// of any dtype, `weight` is [B]; no weight means that all count. Where no row counts, floats are 0.5, which lies in
/// the domain of log, sqrt, 1 / x, asin and log(1 - x), and all else is 0. `data_parallel` and `EvaluateStep` do so
/// before they call the loss, `Model::stateless_call` outside of maps; in a map of one's own call it on the batch that
/// goes in. A leaf of rank 0 is the same for all rows and stays. Throws DataError for another leaf that has not one row
/// for each weight.
LOCKSTEP_API Tree fill_masked_rows(const Tree& rows, const ArrayOperand& weight);

/// A loss: terms joined by `+`, each Weighted or an invariant scalar (a penalty, counted once).
struct LOCKSTEP_API Loss {
  std::vector<Weighted> terms;
  std::vector<Array> penalties;

  Loss();
  Loss(const Loss& other);
  Loss(Loss&& other) noexcept;
  Loss& operator=(const Loss& other);
  Loss& operator=(Loss&& other) noexcept;
  ~Loss();
  Loss(Weighted term);  // NOLINT: implicit by design
  explicit Loss(Array penalty);
};
LOCKSTEP_API Loss operator+(Loss a, const Loss& b);         ///< Terms and penalties of both; the loss is their sum.
LOCKSTEP_API Loss operator+(Loss a, const Array& penalty);  ///< With one penalty more.
LOCKSTEP_API Loss operator+(const Array& penalty, Loss b);  ///< The same.
/// Scales sums and penalties, not weights.
LOCKSTEP_API Loss operator*(double scale, Loss loss);

/// What a training loss returns: the loss, the new non-trainable state, and metrics.
struct WithAux {
  Loss loss;
  Tree state;
  Named<Weighted> metrics;
};

/// Values [B, ...] with weights of any leading part of their shape: [B] for rows, [B, T] for the places of sequences. A
/// weight belongs to the mean of what lies under it; no weights means that each row weighs 1. Sum and weight are in at
/// least float32. Where a weight is 0, values are masked by select: a NaN there reaches neither the sum nor the
/// derivative by the values. What made the values must not see it either (`fill_masked_rows`): 0 times an infinite
/// derivative is NaN. The losses mask predictions and targets before they compute anything. Throws ShapeError for
/// values of rank 0 and for weights of another shape, DtypeError for complex weights.
LOCKSTEP_API Weighted weighted(const ArrayOperand& values, const Array& weight = {});

namespace detail {
/// Throws DataError, beginning with `[who]`, for weights of rows that are there and are negative, infinite or NaN.
LOCKSTEP_API void expect_row_weights(std::string_view who, const Array& weight);
/// Throws MeshError, beginning with `[who]` and ending with `instead`, where a vmap around the call maps rows that differ
/// between the replicas of one of the axes: a reduction over that axis would join row i of every shard, which depends on
/// how the batch is sharded.
LOCKSTEP_API void check_no_mapped_rows(std::string_view who, const AxisSet& axes, std::string_view instead);
}  // namespace detail

// Penalties: rank-0 sums over the float leaves of a tree, in at least float32; 0 of a tree without one. Both throw
// ValueError unless the factor is finite and not negative.
/// factor * sum |w|, slope 0 at 0. Tibshirani 1996.
LOCKSTEP_API Array l1_penalty(const Tree& parameters, double factor);
LOCKSTEP_API Array l2_penalty(const Tree& parameters, double factor);  ///< factor * sum w^2, without a half.

}  // namespace lockstep
