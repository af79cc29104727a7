#include <lockstep/error.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "engine/nn/class_labels.h"

namespace lockstep {
namespace {

/// The classes that integer labels [B, ...] or dense ones [B, ..., C] name; a dense row of zeros names none.
nn::ClassLabels labels_of(std::string_view metric, const Array& labels, const Array& logits,
                          const LabelOptions& options) {
  if (is_integer(labels.dtype()) && labels.ndim() < logits.ndim()) {
    return nn::class_labels(metric, labels, logits.dim(-1), options);
  }
  nn::check_dense(metric, labels, options);
  return {argmax(labels, -1), any(labels != 0, Axes{-1}), {}};
}

Weighted rate_of(const Array& hit, const nn::ClassLabels& labels, const Array& weight) {
  return nn::weighted_labels(nn::with_unknown_as_nan(convert(hit, float32), labels), labels, weight);
}

void check_logits(std::string_view metric, const Array& logits) {
  if (logits.ndim() >= 2) return;
  throw ShapeError("[" + std::string(metric) + "] logits are " + to_string(logits.type()) +
                   "; give rows of class scores, [B, ..., C]");
}

/// Narrower dtypes cannot hold a sum over many rows.
Array in_float32(const Array& x) { return convert(x, promote(x.dtype(), float32)); }

/// psum over those of the bound axes along which x varies.
Array reduced(const Array& x) {
  const AxisSet axes = x.type().varying;
  return axes.empty() ? x : psum(x, axes);
}

}  // namespace

Weighted mean_metric(const ArrayOperand& values, const Array& weight) { return weighted(values, weight); }

Weighted accuracy(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight,
                  const LabelOptions& options) {
  check_logits("accuracy", logits);
  const nn::ClassLabels named = labels_of("accuracy", labels, logits, options);
  return rate_of(argmax(logits, -1) == named.classes, named, weight);
}

Weighted top_k_accuracy(const ArrayOperand& logits, const ArrayOperand& labels, std::int64_t k, const Array& weight,
                        const LabelOptions& options) {
  check_logits("top_k_accuracy", logits);
  const Array best = top_k(logits, k).second;
  const nn::ClassLabels named = labels_of("top_k_accuracy", labels, logits, options);
  return rate_of(any(best == expand_dims(named.classes, -1), Axes{-1}), named, weight);
}

Array value(const Weighted& weighted) {
  check_reduced_alike("value", weighted);
  const Array weight = reduced(in_float32(weighted.weight));
  const Array total = reduced(in_float32(weighted.sum));
  const Array empty = weight == 0;
  return where(empty, 0, total / where(empty, 1, weight));
}

void Mean::update(const Weighted& batch) {
  sum_ += batch.sum.item<double>();
  weight_ += batch.weight.item<double>();
}

double Mean::result() const { return weight_ == 0 ? 0 : sum_ / weight_; }

void Mean::reset() {
  sum_ = 0;
  weight_ = 0;
}

}  // namespace lockstep
