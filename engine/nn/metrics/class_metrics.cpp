#include <cmath>
#include <limits>
#include <string>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/reductions.h>

#include "engine/nn/losses/class_labels.h"
#include "engine/nn/losses/loss_operands.h"
#include "engine/nn/metrics/metric_sums.h"

namespace lockstep {
namespace {

/// Rows without a NaN among their scores, which is neither the largest nor below it.
Array known_scores(const Array& scores, const Array& known) {
  return is_float(scores.dtype()) ? known & ~any(isnan(scores), Axes{-1}) : known;
}

Weighted rate_of(const Array& hit, const Array& logits, nn::ClassLabels labels, const Array& weight) {
  labels.known = known_scores(logits, labels.known);
  return nn::weighted_labels(nn::with_unknown_as_nan(convert(hit, float32), labels), labels, weight);
}

void check_logits(std::string_view metric, const Array& logits) {
  nn::check_real(metric, "logits", logits);
  if (logits.ndim() >= 2) return;
  throw ShapeError("[" + std::string(metric) + "] logits are " + to_string(logits.type()) +
                   "; give rows of class scores, [B, ..., C]");
}

/// Weighted counts of what was predicted and what was there.
struct BinaryCounts {
  Array true_positive, false_positive, true_negative, false_negative;
};

BinaryCounts counts_of(const nn::LossCall& of, const Array& predictions, const Array& labels, double threshold) {
  nn::check_option(!std::isnan(threshold), of.name, "threshold", threshold, "a number");
  const auto [p, y] = nn::number_operands(of, predictions, labels);
  // A factor: a NaN is neither above the threshold nor below.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array w = nn::element_weights(of, p) * where(isnan(p) | isnan(y), nan, 1.0);
  const Array found = p > threshold, there = y > 0.5;
  const auto count = [&](const Array& held) { return sum(where(held | isnan(w), w, 0)); };
  return {count(found & there), count(found & ~there), count(~found & ~there), count(~found & there)};
}

/// Predicted in columns, labels in rows.
struct Confusion {
  Array counts, hits, labelled, predicted;
};

Confusion confusion_of(std::string_view metric, const Weighted& sums) {
  const Array counts = nn::total_sums(metric, sums, 0, "confusion_matrix");
  return {counts, sum(counts * eye(counts.dim(0), float64), Axes{1}), sum(counts, Axes{1}), sum(counts, Axes{0})};
}

}  // namespace

Weighted accuracy(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight,
                  const LabelOptions& options) {
  check_logits("accuracy", logits);
  const nn::ClassLabels named = nn::labels_of("accuracy", labels, logits, options);
  return rate_of(argmax(logits, -1) == named.classes, logits, named, weight);
}

Weighted top_k_accuracy(const ArrayOperand& logits, const ArrayOperand& labels, std::int64_t k, const Array& weight,
                        const LabelOptions& options) {
  check_logits("top_k_accuracy", logits);
  nn::check_option(k >= 1, "top_k_accuracy", "k", static_cast<double>(k), "1 or more");
  const Array best = top_k(logits, k).second;
  const nn::ClassLabels named = nn::labels_of("top_k_accuracy", labels, logits, options);
  return rate_of(any(best == expand_dims(named.classes, -1), Axes{-1}), logits, named, weight);
}

Array perplexity(const Weighted& cross_entropy) { return exp(value(cross_entropy)); }

Weighted binary_accuracy(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight,
                         double threshold) {
  const BinaryCounts n = counts_of({"binary_accuracy", weight}, predictions, labels, threshold);
  const Array right = n.true_positive + n.true_negative;
  return {right, right + n.false_positive + n.false_negative};
}

Weighted precision(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight, double threshold) {
  const BinaryCounts n = counts_of({"precision", weight}, predictions, labels, threshold);
  return {n.true_positive, n.true_positive + n.false_positive};
}

Weighted recall(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight, double threshold) {
  const BinaryCounts n = counts_of({"recall", weight}, predictions, labels, threshold);
  return {n.true_positive, n.true_positive + n.false_negative};
}

Weighted specificity(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight,
                     double threshold) {
  const BinaryCounts n = counts_of({"specificity", weight}, predictions, labels, threshold);
  return {n.true_negative, n.true_negative + n.false_positive};
}

Weighted f_score(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight, double threshold,
                 double beta) {
  nn::check_option(beta > 0 && std::isfinite(beta), "f_score", "beta", beta, "finite and above 0");
  const BinaryCounts n = counts_of({"f_score", weight}, predictions, labels, threshold);
  const double square = beta * beta;
  const Array right = (1 + square) * n.true_positive;
  return {right, right + square * n.false_negative + n.false_positive};
}

Weighted binary_iou(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight,
                    double threshold) {
  const BinaryCounts n = counts_of({"binary_iou", weight}, predictions, labels, threshold);
  return {n.true_positive, n.true_positive + n.false_positive + n.false_negative};
}

Weighted confusion_matrix(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight,
                          const LabelOptions& options) {
  const nn::LossCall of{"confusion_matrix", weight};
  check_logits(of.name, logits);
  const std::int64_t classes = logits.dim(-1);
  const nn::ClassLabels named = nn::labels_of(of.name, nn::counted(labels, weight), logits, options);
  const Array scores = nn::counted(logits, weight);
  Array w = nn::element_weights(of, named.classes);
  const Array counts = w != 0;
  if (named.counted.has_value()) w = where(named.counted, w, 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array known = known_scores(scores, named.known);
  w = where(counts & ~known & (w != 0), nan, w);
  const Array place = convert(named.classes, int32) * classes + argmax(scores, -1);
  const Array cells = bincount(reshape(place, {-1}), classes * classes, reshape(w, {-1}));
  return {reshape(cells, {classes, classes}), sum(w)};
}

Array class_precision(const Weighted& confusion) {
  const Confusion c = confusion_of("class_precision", confusion);
  return nn::ratio(c.hits, c.predicted);
}

Array class_recall(const Weighted& confusion) {
  const Confusion c = confusion_of("class_recall", confusion);
  return nn::ratio(c.hits, c.labelled);
}

Array class_f1(const Weighted& confusion) {
  const Confusion c = confusion_of("class_f1", confusion);
  return nn::ratio(2 * c.hits, c.labelled + c.predicted);
}

Array class_iou(const Weighted& confusion) {
  const Confusion c = confusion_of("class_iou", confusion);
  return nn::ratio(c.hits, c.labelled + c.predicted - c.hits);
}

Array mean_iou(const Weighted& confusion) {
  const Confusion c = confusion_of("mean_iou", confusion);
  const Array either = c.labelled + c.predicted - c.hits;
  return nn::ratio(sum(nn::ratio(c.hits, either)), sum(convert(either != 0, float64)));
}

Array cohen_kappa(const Weighted& confusion) {
  const Confusion c = confusion_of("cohen_kappa", confusion);
  const Array all = sum(c.counts), by_chance = sum(c.labelled * c.predicted);
  return nn::ratio(all * sum(c.hits) - by_chance, square(all) - by_chance);
}

Array matthews_correlation(const Weighted& confusion) {
  const Confusion c = confusion_of("matthews_correlation", confusion);
  const Array all = sum(c.counts), covariance = all * sum(c.hits) - sum(c.labelled * c.predicted);
  const auto spread = [&](const Array& sizes) { return square(all) - sum(square(sizes)); };
  return nn::ratio(covariance, sqrt(spread(c.labelled)) * sqrt(spread(c.predicted)));
}

}  // namespace lockstep
