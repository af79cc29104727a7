#include <cmath>
#include <string>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/losses_classification.h>
#include <lockstep/ops.h>

#include "engine/nn/losses/loss_operands.h"

namespace lockstep {
namespace {

/// Of each row, or each row's classes.
struct Overlap {
  Array both, predicted, labelled;
};

Overlap overlap_of(const nn::LossCall& of, const Array& probabilities, const Array& labels, bool per_class,
                   bool squared) {
  const auto [p, y] = nn::number_operands(of, probabilities, labels);
  const int least = per_class ? 3 : 2;
  if (p.ndim() < least) {
    throw ShapeError("[" + std::string(of.name) + "] probabilities are " + to_string(probabilities.type()) +
                     (per_class ? "; give [B, ..., C] with places to sum over, or per_class = false"
                                : "; give rows of probabilities, [B, ...]"));
  }
  Axes axes = nn::all_but_first(p);
  if (per_class) axes.pop_back();
  return {sum(p * y, axes), sum(squared ? square(p) : p, axes), sum(squared ? square(y) : y, axes)};
}

}  // namespace

Weighted tversky(const ArrayOperand& probabilities, const ArrayOperand& labels, const Array& weight,
                 const TverskyOptions& options) {
  const double s = options.smoothing;
  nn::check_option(s > 0 && std::isfinite(s), "tversky", "smoothing", s, "finite and above 0");
  for (const auto& [what, share] : {std::pair("alpha", options.alpha), std::pair("beta", options.beta)}) {
    nn::check_option(share >= 0 && std::isfinite(share), "tversky", what, share, "finite and 0 or more");
  }
  const Overlap o = overlap_of({"tversky", weight}, probabilities, labels, options.per_class, false);
  const Array below = o.both + options.alpha * (o.predicted - o.both) + options.beta * (o.labelled - o.both) + s;
  return weighted(1 - (o.both + s) / below, weight);
}

Weighted dice(const ArrayOperand& probabilities, const ArrayOperand& labels, const Array& weight,
              const DiceOptions& options) {
  const double s = options.smoothing;
  nn::check_option(s > 0 && std::isfinite(s), "dice", "smoothing", s, "finite and above 0");
  const Overlap o = overlap_of({"dice", weight}, probabilities, labels, options.per_class, options.squared);
  return weighted(1 - (2 * o.both + s) / (o.predicted + o.labelled + s), weight);
}

}  // namespace lockstep
