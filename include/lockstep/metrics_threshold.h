#pragma once

#include <cstdint>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/weighted.h>

// Metrics over all thresholds, see metrics.h.
namespace lockstep {

/// Weighted counts [2, n + 1] of negatives and positives by how many of n thresholds their prediction is above: the
/// thresholds are -1e-7, 1 / (n - 1), 2 / (n - 1), ..., 1 + 1e-7 (Keras'). Predictions are probabilities, labels above
/// 0.5 are positive; both of one shape (else ShapeError). Throws ValueError for n below 2.
LOCKSTEP_API Weighted threshold_counts(const ArrayOperand& predictions, const ArrayOperand& labels,
                                       const Array& weight = {}, std::int64_t n = 200);

/// What `auc` is the area under.
enum class Curve : std::uint8_t {
  roc,              ///< The share of positives found over the share of negatives taken for positive.
  precision_recall  ///< Precision over recall, interpolated as Davis and Goadrich 2006 have it.
};
// Of threshold_counts, in float64. All throw ShapeError for other sums, ValueError for a share outside [0, 1]; 0 where no
// threshold is such.
/// By trapezoids between thresholds.
LOCKSTEP_API Array auc(const Weighted& counts, Curve curve = Curve::roc);
/// The best precision at a threshold whose recall is at least that.
LOCKSTEP_API Array precision_at_recall(const Weighted& counts, double recall);
LOCKSTEP_API Array recall_at_precision(const Weighted& counts, double precision);  ///< The other way.
/// The best recall at a threshold whose specificity (the share of negatives left) is at least that.
LOCKSTEP_API Array sensitivity_at_specificity(const Weighted& counts, double specificity);
LOCKSTEP_API Array specificity_at_sensitivity(const Weighted& counts, double sensitivity);  ///< The other way.

}  // namespace lockstep
