#include <utility>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/losses.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "engine/nn/class_cross_entropy.h"
#include "engine/nn/class_labels.h"

namespace lockstep {
namespace {

Axes all_but_first(const Array& x) {
  Axes axes;
  for (int i = 1; i < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

void check_equal_shapes(std::string_view loss, const Array& a, const Array& b) {
  if (a.shape() == b.shape()) return;
  throw ShapeError("[" + std::string(loss) + "] predictions are " + to_string(a.type()) + ", targets " +
                   to_string(b.type()) + "; give both one shape");
}

/// Predictions or targets with 0 in rows of weight 0, before anything is computed of them: what comes back to such a row is
/// 0 by select, not 0 times the derivative there. Weights of another shape are left for `weighted` to refuse.
Array counted(const Array& x, const Array& weight) {
  if (!weight.has_value() || x.ndim() == 0 || weight.ndim() != 1 || weight.dim(0) != x.dim(0)) return x;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.ndim()), 1);
  shape[0] = x.dim(0);
  return where(reshape(stop_gradient(weight) != 0, shape), x, zeros({}, x.dtype()));
}

/// Narrower dtypes hold neither a sum over many elements nor a square.
Array wide(const Array& x) { return is_float(x.dtype()) ? convert(x, promote(x.dtype(), float32)) : x; }

Array float_targets(const Array& targets, const Array& predictions) { return convert(targets, predictions.dtype()); }

/// Predictions less targets, in rows that count. Integer predictions are numbers too: their differences are floats.
Array error_of(const Array& predictions, const Array& targets, const Array& weight) {
  const DType dtype = is_inexact(predictions.dtype()) ? predictions.dtype()
                      : is_inexact(targets.dtype())   ? targets.dtype()
                                                      : float32;
  const Array x = wide(convert(predictions, dtype));
  return counted(x - float_targets(targets, x), weight);
}

Weighted sparse_cross_entropy(const Array& logits, const Array& labels, const Array& weight,
                              const LabelOptions& options) {
  const nn::ClassLabels found =
      nn::class_labels("softmax_cross_entropy", counted(labels, weight), logits.dim(-1), options);
  Array rows = counted(logits, weight);
  // What is ignored must not come back as 0 times NaN.
  if (found.counted.has_value()) rows = where(expand_dims(found.counted, -1), rows, 0);
  const Array losses = nn::class_cross_entropy(rows, found.classes);
  return nn::weighted_labels(nn::with_unknown_as_nan(losses, found), found, weight);
}

Array dense_cross_entropy(const Array& logits, const Array& labels) {
  check_equal_shapes("softmax_cross_entropy", logits, labels);
  const Array y = float_targets(labels, logits), log_p = log_softmax(logits);
  // A class of no probability that none was expected of adds nothing.
  const Array nothing = (y == 0) & isneginf(log_p);
  return -sum(where(nothing, 0, y * where(nothing, 0, log_p)), Axes{-1});
}

}  // namespace

Loss operator+(Loss a, const Loss& b) {
  a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
  a.penalties.insert(a.penalties.end(), b.penalties.begin(), b.penalties.end());
  return a;
}

Loss operator+(Loss a, const Array& penalty) { return std::move(a) + Loss(penalty); }

Loss operator+(const Array& penalty, Loss b) { return Loss(penalty) + b; }

Loss operator*(double scale, Loss loss) {
  for (Weighted& term : loss.terms) term.sum = scale * term.sum;
  for (Array& penalty : loss.penalties) penalty = scale * penalty;
  return loss;
}

Weighted weighted(const ArrayOperand& values, const Array& weight) {
  if (values.ndim() == 0) {
    throw ShapeError("[weighted] the values have rank 0; give one value per row, [B] or [B, ...]");
  }
  const Array wide = convert(values, promote(values.dtype(), float32));
  const Array rows = wide.ndim() == 1 ? wide : mean(wide, all_but_first(wide));
  if (!weight.has_value()) {
    const Array count = full({}, static_cast<double>(rows.dim(0)), rows.dtype());
    return {sum(rows), pvary(count, rows.type().varying)};
  }
  if (weight.shape() != rows.shape()) {
    throw ShapeError("[weighted] the values have " + std::to_string(rows.dim(0)) + " rows, the weights shape " +
                     to_string(weight.shape()) + "; give one weight per row");
  }
  const Array w = stop_gradient(convert(weight, rows.dtype()));
  // Masked before the product: 0 * NaN is NaN, and so is its derivative.
  return {sum(where(w == 0, 0, rows) * w), sum(w)};
}

Weighted softmax_cross_entropy(const ArrayOperand& given_logits, const ArrayOperand& labels, const Array& weight,
                               const LabelOptions& options) {
  const Array logits = wide(given_logits);
  if (logits.ndim() < 2 || logits.dim(-1) == 0) {
    throw ShapeError("[softmax_cross_entropy] logits are " + to_string(logits.type()) +
                     "; give rows of class scores, [B, ..., C], of at least one class");
  }
  if (!is_integer(labels.dtype())) {
    nn::check_dense("softmax_cross_entropy", labels, options);
    return weighted(dense_cross_entropy(counted(logits, weight), counted(labels, weight)), weight);
  }
  Shape expected = logits.shape().erase(logits.ndim() - 1);
  if (labels.shape() != expected) {
    throw ShapeError("[softmax_cross_entropy] logits are " + to_string(logits.type()) + ", integer labels " +
                     to_string(labels.type()) + "; give labels of shape " + to_string(expected) +
                     ", or dense ones of the logits' shape and a float dtype");
  }
  return sparse_cross_entropy(logits, labels, weight, options);
}

Weighted binary_cross_entropy(const ArrayOperand& all_logits, const ArrayOperand& labels, const Array& weight) {
  check_equal_shapes("binary_cross_entropy", all_logits, labels);
  const Array logits = counted(wide(all_logits), weight);
  const Array y = counted(float_targets(labels, logits), weight);
  // (1 - y) x + log(1 + exp(-x)) above 0, -y x + log(1 + exp(x)) else: no overflow for any logit, and one predicate, so
  // that at 0 the derivatives are those of one side. An infinite logit that is right costs nothing.
  const Array above = logits > 0;
  const Array slope = where(above, 1 - y, -y);
  const Array nothing = (slope == 0) & isinf(logits);
  const Array linear = where(nothing, 0, slope * where(nothing, 0, logits));
  return weighted(linear + log1p(exp(where(above, -logits, logits))), weight);
}

Weighted mean_squared_error(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight) {
  check_equal_shapes("mean_squared_error", predictions, targets);
  return weighted(square(error_of(predictions, targets, weight)), weight);
}

Weighted mean_absolute_error(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight) {
  check_equal_shapes("mean_absolute_error", predictions, targets);
  return weighted(abs(error_of(predictions, targets, weight)), weight);
}

Weighted huber(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight, double delta) {
  check_equal_shapes("huber", predictions, targets);
  if (!(delta > 0)) throw ValueError(fmt::format("[huber] delta is {}; it must be above 0", delta));
  const Array error = error_of(predictions, targets, weight);
  // Not by |error|, which has no second derivative at 0.
  const Array size = abs(error), near = size <= delta;
  const Array inside = 0.5 * square(where(near, error, 0)), outside = delta * (size - 0.5 * delta);
  return weighted(where(near, inside, outside), weight);
}

Array l1_penalty(const Tree& parameters, double factor) {
  Array total = full({}, 0.0, float32);
  for (const Array& leaf : parameters.leaves()) {
    if (is_float(leaf.dtype())) total = total + sum(abs(wide(leaf)));
  }
  return factor * total;
}

Array l2_penalty(const Tree& parameters, double factor) {
  Array total = full({}, 0.0, float32);
  for (const Array& leaf : parameters.leaves()) {
    if (is_float(leaf.dtype())) total = total + sum(square(wide(leaf)));
  }
  return factor * total;
}

}  // namespace lockstep
