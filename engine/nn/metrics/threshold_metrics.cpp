#include <limits>
#include <string>
#include <vector>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>

#include "engine/nn/losses/loss_operands.h"
#include "engine/nn/metrics/metric_sums.h"

namespace lockstep {
namespace {

Array thresholds(std::int64_t n, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / static_cast<double>(n - 1);
  values.front() = -1e-7;
  values.back() = 1 + 1e-7;
  return convert(array(values), dtype);
}

/// At each threshold, from the lowest on: [n] each.
struct CurvePoints {
  Array true_positive, false_positive, true_negative, false_negative;
};

CurvePoints points_of(std::string_view metric, const Weighted& counts) {
  const Array total = nn::total_sums(metric, counts, 2, "threshold_counts");
  // Above threshold j is what is in places j + 1 and on.
  const Array above = slice_in_dim(cumsum(total, 1, true), 1, total.dim(1), 1);
  const Array all = sum(total, Axes{1}, true);
  const Array below = all - above;
  return {above[1], above[0], below[0], below[1]};
}

Array recalls(const CurvePoints& c) { return nn::ratio(c.true_positive, c.true_positive + c.false_negative); }
Array precisions(const CurvePoints& c) { return nn::ratio(c.true_positive, c.true_positive + c.false_positive); }
Array specificities(const CurvePoints& c) { return nn::ratio(c.true_negative, c.true_negative + c.false_positive); }

Array without_last(const Array& x) { return slice_in_dim(x, 0, x.dim(0) - 1, 0); }
Array without_first(const Array& x) { return slice_in_dim(x, 1, x.dim(0), 0); }

Array area_of_roc(const CurvePoints& c) {
  const Array found = recalls(c), taken = nn::ratio(c.false_positive, c.false_positive + c.true_negative);
  return sum((without_last(taken) - without_first(taken)) * (without_last(found) + without_first(found)) / 2);
}

/// Between two thresholds, true positives grow in proportion with all positives: precision is (a + slope p) / p there.
Array area_of_precision(const CurvePoints& c) {
  const Array positives = c.true_positive + c.false_positive;
  const Array more = without_last(positives), fewer = without_first(positives);
  const Array gained = without_last(c.true_positive) - without_first(c.true_positive);
  const Array slope = nn::ratio(gained, more - fewer);
  const Array start = without_first(c.true_positive) - slope * fewer;
  const Array some = (more > 0) & (fewer > 0);
  const Array growth = where(some, more / where(fewer > 0, fewer, 1), 1);
  const Array labelled = without_first(c.true_positive) + without_first(c.false_negative);
  return sum(nn::ratio(slope * (gained + start * log(growth)), labelled));
}

/// The largest of values where others are at least so large; NaN where one of the others is. Throws ValueError, in the
/// name of the metric, for a share of `what` outside [0, 1].
Array best_where(const Array& values, const Array& others, std::string_view metric, std::string_view what,
                 double least) {
  nn::check_option(least >= 0 && least <= 1, metric, what, least, "in [0, 1]");
  return max(where(others >= least, values, 0 * others));
}

}  // namespace

Weighted threshold_counts(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight,
                          std::int64_t n) {
  const nn::LossCall of{"threshold_counts", weight};
  nn::check_option(n >= 2, of.name, "n", static_cast<double>(n), "2 or more");
  const auto [p, y] = nn::number_operands(of, predictions, labels);
  const Array w =
      nn::element_weights(of, p) * where(isnan(p) | isnan(y), std::numeric_limits<double>::quiet_NaN(), 1.0);
  const Array flat = reshape(p, {-1});
  const Array passed = searchsorted(thresholds(n, p.dtype()), where(isnan(flat), 0, flat));
  const auto counts = [&](const Array& held) { return bincount(passed, n + 1, reshape(where(held, w, 0), {-1})); };
  const Array there = y > 0.5;
  return {stack({counts(~there), counts(there)}, 0), sum(w)};
}

Array auc(const Weighted& counts, Curve curve) {
  const CurvePoints c = points_of("auc", counts);
  return curve == Curve::roc ? area_of_roc(c) : area_of_precision(c);
}

Array precision_at_recall(const Weighted& counts, double recall) {
  const CurvePoints c = points_of("precision_at_recall", counts);
  return best_where(precisions(c), recalls(c), "precision_at_recall", "recall", recall);
}

Array recall_at_precision(const Weighted& counts, double precision) {
  const CurvePoints c = points_of("recall_at_precision", counts);
  return best_where(recalls(c), precisions(c), "recall_at_precision", "precision", precision);
}

Array sensitivity_at_specificity(const Weighted& counts, double specificity) {
  const CurvePoints c = points_of("sensitivity_at_specificity", counts);
  return best_where(recalls(c), specificities(c), "sensitivity_at_specificity", "specificity", specificity);
}

Array specificity_at_sensitivity(const Weighted& counts, double sensitivity) {
  const CurvePoints c = points_of("specificity_at_sensitivity", counts);
  return best_where(specificities(c), recalls(c), "specificity_at_sensitivity", "sensitivity", sensitivity);
}

}  // namespace lockstep
