#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>

namespace lockstep {

/// A mean that is not divided yet: `sum` of weighted values and the total `weight`, of this shard's rows. Over the mesh it
/// is psum(sum) / psum(weight); a total weight of 0 gives 0 with gradient 0.
struct Weighted {
  Array sum;
  Array weight;
};
LOCKSTEP_TREE(Weighted, sum, weight);

/// A loss: terms joined by `+`, each Weighted or an invariant scalar (a penalty, counted once).
struct Loss {
  std::vector<Weighted> terms;
  std::vector<Array> penalties;

  Loss() = default;
  Loss(Weighted term) : terms{std::move(term)} {}  // NOLINT: implicit by design
  explicit Loss(Array penalty) : penalties{std::move(penalty)} {}
};
LOCKSTEP_API Loss operator+(Loss a, const Loss& b);
LOCKSTEP_API Loss operator+(Loss a, const Array& penalty);
LOCKSTEP_API Loss operator+(const Array& penalty, Loss b);
/// Scales sums and penalties, not weights.
LOCKSTEP_API Loss operator*(double scale, Loss loss);

/// What a training loss returns: the loss, the new non-trainable state, and metrics.
struct WithAux {
  Loss loss;
  Tree state;
  std::map<std::string, Weighted> metrics;
};

/// Values [B] (or [B, ...]: averaged over the rest of each row) with row weights [B]; no weights means all 1. Rows of
/// weight 0 are masked by select, so NaN in padding does no harm.
LOCKSTEP_API Weighted weighted(const Array& values, const Array& weight = {});

/// Rows of logits [B, ..., C] against integer labels [B, ...] or dense ones [B, ..., C] (by dtype). Stable for any logits.
LOCKSTEP_API Weighted softmax_cross_entropy(const Array& logits, const Array& labels, const Array& weight = {});
/// Logits and labels in [0, 1] of one shape.
LOCKSTEP_API Weighted binary_cross_entropy(const Array& logits, const Array& labels, const Array& weight = {});
LOCKSTEP_API Weighted mean_squared_error(const Array& predictions, const Array& targets, const Array& weight = {});
LOCKSTEP_API Weighted mean_absolute_error(const Array& predictions, const Array& targets, const Array& weight = {});
/// Quadratic within delta, linear beyond. Huber 1964.
LOCKSTEP_API Weighted huber(const Array& predictions, const Array& targets, const Array& weight = {},
                            double delta = 1.0);

/// Penalties: factor * sum |w| and factor * sum w^2 over the float leaves of a tree.
LOCKSTEP_API Array l1_penalty(const Tree& parameters, double factor);
LOCKSTEP_API Array l2_penalty(const Tree& parameters, double factor);

}  // namespace lockstep
