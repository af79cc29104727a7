#pragma once

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/metrics_classification.h>
#include <lockstep/metrics_regression.h>
#include <lockstep/metrics_threshold.h>
#include <lockstep/weighted.h>

// Metrics are sums: what a shard, a process or a batch found is added to what others did, and nothing is averaged
// before the end. Most are ratios of two sums, whose `value` is one number. Others are sums of several numbers (a
// confusion matrix, counts at thresholds), of which a function makes the value: it may be called on the host, on what
// EvaluateStep gives, or inside a map, where it adds up the shards first. Weights are of any leading shape of the
// operands; what has weight 0 may hold anything, NaN too; a NaN that counts makes the metric NaN. docs/losses.md has
// the list.
namespace lockstep {

/// Mean of values [B] under row weights.
LOCKSTEP_API Weighted mean_metric(const ArrayOperand& values, const Array& weight = {});

/// sum / weight in at least float32, 0 where the weight is 0; inside a map reduced over the batch axes first. Throws
/// MeshError where one of the two is reduced and the other is not, and inside a vmap over the rows of a shard: reduced
/// there, row i of every shard would be one.
LOCKSTEP_API Array value(const Weighted& weighted);

/// sum / weight of what is here, in at least float32, 0 where the weight is 0: of this shard's rows, or inside a vmap over
/// them of one row. Nothing is reduced; the result varies as the sum does.
LOCKSTEP_API Array local_value(const Weighted& weighted);

/// The sums of two batches, of any metric, in float64: counts stay exact. Throws ShapeError where they are not of one
/// metric.
LOCKSTEP_API Weighted merged(const Weighted& a, const Weighted& b);

/// A running metric on the host: batches' sums and weights in double.
class LOCKSTEP_API Mean {
 public:
  void update(const Weighted& batch);
  double result() const;
  void reset();

 private:
  double sum_ = 0;
  double weight_ = 0;
};

}  // namespace lockstep
