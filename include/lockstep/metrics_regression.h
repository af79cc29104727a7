#pragma once

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/weighted.h>

// Metrics of numbers, see metrics.h. mean_squared_error, mean_absolute_error and the other losses are metrics as they
// are.
namespace lockstep {

/// The root of the mean of squared errors, `mean_squared_error(...)`.
LOCKSTEP_API Array root_mean_squared_error(const Weighted& squared_errors);
/// The cosine of the angle between predictions and targets [B, ..., D].
LOCKSTEP_API Weighted cosine_similarity(const ArrayOperand& predictions, const ArrayOperand& targets,
                                        const Array& weight = {});

/// Sums [19, D] over predictions p and targets y, [B, ..., D] or [B] (D = 1), in float64: of the weights, p, y, p^2, y^2
/// and p y, three parts each that add up without loss over rows, shards and batches, and of (p - y)^2. The four below are
/// made of them: their variances are right where a mean is up to 2^40 times the deviation. Throws ShapeError unless both
/// have one shape.
LOCKSTEP_API Weighted regression_sums(const ArrayOperand& predictions, const ArrayOperand& targets,
                                      const Array& weight = {});
/// 1 - (squared errors) / (squared distances of targets from their mean), averaged over the outputs D; 0 where targets
/// are all the same, or nothing counts. Throws ShapeError for other sums, here and below.
LOCKSTEP_API Array r2_score(const Weighted& sums);
/// 1 - (variance of errors) / (variance of targets), averaged likewise.
LOCKSTEP_API Array explained_variance(const Weighted& sums);
/// Pearson's correlation of predictions and targets, averaged likewise.
LOCKSTEP_API Array pearson_correlation(const Weighted& sums);
/// Lin's concordance of predictions and targets, 2 cov / (var p + var y + (mean p - mean y)^2), averaged likewise. 1989.
LOCKSTEP_API Array concordance_correlation(const Weighted& sums);

}  // namespace lockstep
