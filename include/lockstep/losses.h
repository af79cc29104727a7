#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/named.h>
#include <lockstep/tree.h>

namespace lockstep {

/// A mean that is not divided yet: `sum` of weighted values and the total `weight`, of this shard's rows. Over the mesh
/// it is psum(sum) / psum(weight); a total weight of 0 gives 0 with gradient 0. Where both are the same on all replicas
/// they are totals already, and it is sum / weight. One of the two alone is an error (`check_reduced_alike`).
struct Weighted {
  Array sum;
  Array weight;
};
LOCKSTEP_TREE(Weighted, sum, weight);

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
struct Loss {
  std::vector<Weighted> terms;
  std::vector<Array> penalties;

  Loss() = default;
  Loss(Weighted term) : terms{std::move(term)} {}  // NOLINT: implicit by design
  explicit Loss(Array penalty) : penalties{std::move(penalty)} {}
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

/// Values [B] (or [B, ...]: averaged over the rest of each row) with row weights [B]; no weights means all 1. Sum and
/// weight are in at least float32. Rows of weight 0 are masked by select: a NaN there reaches neither the sum nor the
/// derivative by the values. What made the values must not see it either (`fill_masked_rows`): 0 times an infinite
/// derivative is NaN. The losses below mask predictions and targets before they compute anything.
LOCKSTEP_API Weighted weighted(const ArrayOperand& values, const Array& weight = {});

/// What integer labels mean beside the classes 0 to C - 1. Whatever else is there has no meaning: its row's value is
/// NaN, and so is the gradient by its logits; it is never taken for class 0 or C - 1, and never counted from the end.
struct LabelOptions {
  /// The label of what has none (often -1 or -100): it has weight 0, whatever its logits are. A row of several labels
  /// then weighs as much as the part of them that counts, so that the mean is over the labels that count.
  std::optional<std::int64_t> ignore_index = {};
};

/// Rows of logits [B, ..., C] against integer labels [B, ...] or dense ones [B, ..., C] (by dtype). Stable for any
/// logits: a class of logit -inf adds nothing where no probability is expected of it, one of +inf leaves nothing to the
/// others, and an almost certain class still has its loss and gradient; float16 and bfloat16 are computed in float32.
/// Throws ShapeError for other shapes, ValueError for an ignore_index with dense labels.
LOCKSTEP_API Weighted softmax_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels,
                                            const Array& weight = {}, const LabelOptions& options = {});
/// -y log(p) - (1 - y) log(1 - p) with p = sigmoid(logits), averaged over each row; logits and labels y in [0, 1] of
/// one shape (else ShapeError). Stable for any logits: an infinite one that is right costs nothing.
LOCKSTEP_API Weighted binary_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels,
                                           const Array& weight = {});
/// The mean of (predictions - targets)^2 over all elements of the rows that count. Targets are converted to the
/// predictions' dtype, at least float32 of floats. Throws ShapeError unless both have one shape, here and in the two
/// below.
LOCKSTEP_API Weighted mean_squared_error(const ArrayOperand& predictions, const ArrayOperand& targets,
                                         const Array& weight = {});
/// The mean of |predictions - targets|, with derivative 0 where they are equal; dtypes as above.
LOCKSTEP_API Weighted mean_absolute_error(const ArrayOperand& predictions, const ArrayOperand& targets,
                                          const Array& weight = {});
/// Of the error e: e^2 / 2 for |e| <= delta, else delta (|e| - delta / 2). Throws ValueError unless delta is above 0.
/// Huber 1964.
LOCKSTEP_API Weighted huber(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight = {},
                            double delta = 1.0);

// Penalties: rank-0 sums over the float leaves of a tree, in at least float32; 0 of a tree without one.
/// factor * sum |w|, slope 0 at 0. Tibshirani 1996.
LOCKSTEP_API Array l1_penalty(const Tree& parameters, double factor);
LOCKSTEP_API Array l2_penalty(const Tree& parameters, double factor);  ///< factor * sum w^2, without a half.

}  // namespace lockstep
