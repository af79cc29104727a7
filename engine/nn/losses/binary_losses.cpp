#include <cmath>

#include <lockstep/elementwise.h>
#include <lockstep/losses_classification.h>
#include <lockstep/ops.h>

#include "engine/nn/losses/focal_factor.h"
#include "engine/nn/losses/loss_operands.h"

namespace lockstep {
namespace {

Array inside(const Array& probabilities) { return clip(probabilities, nn::smallest, 1 - nn::smallest); }

Array smoothed_labels(const Array& y, double smoothing) {
  return smoothing == 0 ? y : (1 - smoothing) * y + smoothing / 2;
}

/// (1 - y) x + log(1 + exp(-x)) above 0, -y x + log(1 + exp(x)) else: no overflow for any logit, and one predicate, so
/// that at 0 the derivatives are those of one side. An infinite logit that is right costs nothing.
Array of_logits(const Array& logits, const Array& y) {
  const Array above = logits > 0;
  const Array slope = where(above, 1 - y, -y);
  const Array nothing = (slope == 0) & isinf(logits);
  const Array linear = where(nothing, 0, slope * where(nothing, 0, logits));
  return linear + log1p(exp(where(above, -logits, logits)));
}

Array of_probabilities(const Array& p, const Array& y) { return -y * log(p) - (1 - y) * log1p(-p); }

/// y times what a positive costs. Where that is infinite and y is 0 there is nothing, else y has its derivative at 0 too.
Array of_positives(const Array& x, const Array& y, bool from_logits) {
  if (!from_logits) return -y * log(x);
  const Array nothing = (y == 0) & isinf(x);
  return where(nothing, 0, y * softplus(-where(nothing, 0, x)));
}

Array hinge_of(const nn::LossCall& of, const Array& scores, const Array& labels, double margin) {
  nn::check_option(margin >= 0, of.name, "margin", margin, "0 or more");
  const auto [s, y] = nn::number_operands(of, scores, labels);
  return maximum(margin - nn::by_label(y, s, -s), 0);
}

}  // namespace

Weighted binary_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight,
                              const BinaryOptions& options) {
  constexpr std::string_view name = "binary_cross_entropy";
  const double smoothing = options.label_smoothing, positive = options.positive_weight;
  nn::check_option(smoothing >= 0 && smoothing < 1, name, "label_smoothing", smoothing, "in [0, 1)");
  nn::check_option(positive > 0 && std::isfinite(positive), name, "positive_weight", positive, "finite and above 0");
  auto [x, given] = nn::number_operands({name, weight}, logits, labels);
  const Array y = smoothed_labels(given, smoothing);
  if (!options.from_logits) x = inside(x);
  Array losses = options.from_logits ? of_logits(x, y) : of_probabilities(x, y);
  if (positive != 1) losses = losses + (positive - 1) * of_positives(x, y, options.from_logits);
  return weighted(losses, weight);
}

Weighted sigmoid_focal(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight,
                       const FocalOptions& options) {
  nn::check_focal("sigmoid_focal", options);
  auto [x, given] = nn::number_operands({"sigmoid_focal", weight}, logits, labels);
  const Array y = smoothed_labels(given, options.label_smoothing);
  if (!options.from_logits) x = inside(x);
  const Array losses = options.from_logits ? of_logits(x, y) : of_probabilities(x, y);
  const Array wrong_of_one = options.from_logits ? sigmoid(-x) : 1 - x;
  const Array left = y * wrong_of_one + (1 - y) * (options.from_logits ? sigmoid(x) : x);
  const Array focused = nn::focal_factor(left, options.gamma) * losses;
  if (!options.alpha) return weighted(focused, weight);
  return weighted((y * *options.alpha + (1 - y) * (1 - *options.alpha)) * focused, weight);
}

Weighted hinge(const ArrayOperand& scores, const ArrayOperand& labels, const Array& weight, double margin) {
  return weighted(hinge_of({"hinge", weight}, scores, labels, margin), weight);
}

Weighted squared_hinge(const ArrayOperand& scores, const ArrayOperand& labels, const Array& weight, double margin) {
  return weighted(square(hinge_of({"squared_hinge", weight}, scores, labels, margin)), weight);
}

}  // namespace lockstep
