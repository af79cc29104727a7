#include <limits>
#include <string>

#include <lockstep/activations.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/losses_classification.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>

#include "engine/nn/losses/class_cross_entropy.h"
#include "engine/nn/losses/class_labels.h"
#include "engine/nn/losses/focal_factor.h"
#include "engine/nn/losses/loss_operands.h"

namespace lockstep {
namespace {

void check_scores(std::string_view loss, const Array& scores, const Array& labels) {
  if (scores.ndim() < 2 || scores.dim(-1) == 0) {
    throw ShapeError("[" + std::string(loss) + "] logits are " + to_string(scores.type()) +
                     "; give rows of class scores, [B, ..., C], of at least one class");
  }
  nn::check_real(loss, "logits", scores);
  nn::check_real(loss, "labels", labels);
  const Shape expected = scores.shape().erase(scores.ndim() - 1);
  if (labels.shape() == (is_integer(labels.dtype()) ? expected : scores.shape())) return;
  throw ShapeError("[" + std::string(loss) + "] logits are " + to_string(scores.type()) + ", labels " +
                   to_string(labels.type()) + "; give integer labels of shape " + to_string(expected) +
                   ", or dense ones of the logits' shape and a float dtype (convert)");
}

void check_smoothing(std::string_view loss, double smoothing) {
  nn::check_option(smoothing >= 0 && smoothing < 1, loss, "label_smoothing", smoothing, "in [0, 1)");
}

/// [B, ..., C], of logits or of probabilities.
Array log_probabilities(const Array& scores, bool from_logits) {
  if (from_logits) return log_softmax(scores);
  const Array total = sum(scores, Axes{-1}, true);
  return log(clip(scores / where(total > 0, total, 1), nn::smallest, 1 - nn::smallest));
}

/// sum of y times values over classes. A class of no probability that none was expected of adds nothing.
Array expected_of(const Array& y, const Array& values) {
  const Array nothing = (y == 0) & isinf(values);
  return sum(where(nothing, 0, y * where(nothing, 0, values)), Axes{-1});
}

Array smoothed_over_classes(const Array& y, double smoothing) {
  return smoothing == 0 ? y : (1 - smoothing) * y + smoothing / static_cast<double>(y.dim(-1));
}

/// A loss of scores and integer labels: `values(scores, classes)` in rows that count, NaN where a label is unknown.
template <class F>
Weighted of_integer_labels(const nn::LossCall& of, const Array& scores, const Array& labels,
                           const LabelOptions& options, const F& values) {
  const nn::ClassLabels found = nn::class_labels(of.name, nn::counted(labels, of.weight), scores.dim(-1), options);
  Array rows = nn::counted(scores, of.weight);
  // What is ignored must not come back as 0 times NaN.
  if (found.counted.has_value()) rows = where(expand_dims(found.counted, -1), rows, 0);
  return nn::weighted_labels(nn::with_unknown_as_nan(values(rows, found.classes), found), found, of.weight);
}

/// A loss of scores and a probability for each class, whichever the labels are: `values(scores, y)`.
template <class F>
Weighted of_dense_labels(const nn::LossCall& of, const Array& given, const Array& labels, double smoothing,
                         const LabelOptions& options, const F& values) {
  const Array scores = nn::wide(given);
  check_scores(of.name, scores, labels);
  check_smoothing(of.name, smoothing);
  if (is_integer(labels.dtype())) {
    return of_integer_labels(of, scores, labels, options, [&](const Array& rows, const Array& classes) {
      return values(rows, smoothed_over_classes(one_hot(classes, rows.dim(-1), rows.dtype()), smoothing));
    });
  }
  nn::check_dense(of.name, labels, options);
  const Array y = convert(nn::counted(labels, of.weight), scores.dtype());
  return weighted(values(nn::counted(scores, of.weight), smoothed_over_classes(y, smoothing)), of.weight);
}

/// Of logits and classes, with smoothed labels.
Array class_losses(const Array& rows, const Array& classes, double smoothing) {
  const Array own = nn::class_cross_entropy(rows, classes);
  if (smoothing == 0) return own;
  return (1 - smoothing) * own - smoothing * mean(log_softmax(rows), Axes{-1});
}

}  // namespace

Weighted softmax_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight,
                               const CrossEntropyOptions& options) {
  const nn::LossCall of{"softmax_cross_entropy", weight};
  const LabelOptions known{.ignore_index = options.ignore_index};
  const Array scores = nn::wide(logits);
  if (is_integer(labels.dtype()) && options.from_logits) {
    check_scores(of.name, scores, labels);
    check_smoothing(of.name, options.label_smoothing);
    return of_integer_labels(of, scores, labels, known, [&](const Array& rows, const Array& classes) {
      return class_losses(rows, classes, options.label_smoothing);
    });
  }
  return of_dense_labels(of, scores, labels, options.label_smoothing, known, [&](const Array& rows, const Array& y) {
    return -expected_of(y, log_probabilities(rows, options.from_logits));
  });
}

Weighted poly_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight, double epsilon,
                            const CrossEntropyOptions& options) {
  return of_dense_labels({"poly_cross_entropy", weight}, logits, labels, options.label_smoothing,
                         {.ignore_index = options.ignore_index}, [&](const Array& rows, const Array& y) {
                           const Array log_p = log_probabilities(rows, options.from_logits);
                           return -expected_of(y, log_p) - epsilon * sum(y * expm1(log_p), Axes{-1});
                         });
}

Weighted generalized_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight,
                                   double q, const CrossEntropyOptions& options) {
  nn::check_option(q > 0 && q <= 1, "generalized_cross_entropy", "q", q, "in (0, 1]");
  return of_dense_labels({"generalized_cross_entropy", weight}, logits, labels, options.label_smoothing,
                         {.ignore_index = options.ignore_index}, [&](const Array& rows, const Array& y) {
                           const Array log_p = log_probabilities(rows, options.from_logits);
                           return -sum(y * expm1(q * log_p), Axes{-1}) / q;
                         });
}

Weighted softmax_focal(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight,
                       const FocalOptions& options, const LabelOptions& label_options) {
  nn::check_focal("softmax_focal", options);
  return of_dense_labels({"softmax_focal", weight}, logits, labels, options.label_smoothing, label_options,
                         [&](const Array& rows, const Array& y) {
                           const Array log_p = log_probabilities(rows, options.from_logits);
                           const Array left = nn::focal_factor(-expm1(log_p), options.gamma);
                           return -options.alpha.value_or(1) * expected_of(y * left, log_p);
                         });
}

Weighted multiclass_hinge(const ArrayOperand& given, const ArrayOperand& labels, const Array& weight,
                          const LabelOptions& options) {
  return of_dense_labels({"multiclass_hinge", weight}, given, labels, 0, options,
                         [](const Array& scores, const Array& y) {
                           const nn::ClassLabels named = nn::classes_named_by(y);
                           const Array own = one_hot(named.classes, y.dim(-1)) != 0;
                           const double none = -std::numeric_limits<double>::infinity();
                           const Array other = max(where(own, none, scores), Axes{-1});
                           const Array losses = maximum(1 + other - sum(where(own, scores, 0), Axes{-1}), 0);
                           return nn::with_unknown_as_nan(losses, named);
                         });
}

Weighted sparsemax_loss(const ArrayOperand& given, const ArrayOperand& labels, const Array& weight,
                        const LabelOptions& options) {
  return of_dense_labels({"sparsemax_loss", weight}, given, labels, 0, options,
                         [](const Array& scores, const Array& y) {
                           // Of differences to the largest one: what is in the support is then within 1 of it.
                           const Array z = scores - stop_gradient(max(scores, Axes{-1}, true));
                           const nn::ClassLabels named = nn::classes_named_by(y);
                           const Array is_own = one_hot(named.classes, y.dim(-1), y.dtype()) > 0;
                           const Array among = stop_gradient(sparsemax(z)) > 0, held = where(among, z, 0);
                           const Array count = sum(convert(among, z.dtype()), Axes{-1});
                           const Array threshold = (sum(held, Axes{-1}) - 1) / count;
                           const Array squares = sum(square(held), Axes{-1}) - count * square(threshold);
                           const Array losses = 0.5 * squares + 0.5 - sum(where(is_own, z, 0), Axes{-1});
                           return nn::with_unknown_as_nan(losses, named);
                         });
}

Weighted kl_divergence(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight,
                       const KlOptions& options) {
  nn::check_option(options.epsilon >= 0, "kl_divergence", "epsilon", options.epsilon, "0 or more");
  const auto [x, t] = nn::number_operands({"kl_divergence", weight}, predictions, targets);
  if (x.ndim() < 2) {
    throw ShapeError("[kl_divergence] predictions are " + to_string(predictions.type()) +
                     "; give probabilities of classes along the last dimension, [B, ..., C]");
  }
  const Array log_p = options.log_predictions ? x : log(maximum(x, options.epsilon));
  // A row that does not count has no probability anywhere, not one of exp(0) each.
  const Array y = options.log_targets ? nn::counted(exp(t), weight) : t;
  const Array negative_entropy = options.log_targets ? expected_of(y, t) : sum(xlogy(y, y), Axes{-1});
  return weighted(negative_entropy - expected_of(y, log_p), weight);
}

}  // namespace lockstep
