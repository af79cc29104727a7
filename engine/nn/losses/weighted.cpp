#include <cmath>
#include <string>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/weighted.h>

#include "engine/nn/losses/loss_operands.h"

namespace lockstep {

template class detail::StructTree<Weighted>;
template class Named<Weighted>;

namespace {

/// Means over what lies under a weight.
Array weighed_values(const Array& values, int depth) {
  if (values.ndim() == depth) return values;
  Axes rest;
  for (int i = depth; i < values.ndim(); ++i) rest.push_back(i);
  return mean(values, rest);
}

}  // namespace

Loss::Loss() = default;
Loss::Loss(const Loss& other) = default;
Loss::Loss(Loss&& other) noexcept = default;
Loss& Loss::operator=(const Loss& other) = default;
Loss& Loss::operator=(Loss&& other) noexcept = default;
Loss::~Loss() = default;
Loss::Loss(Weighted term) : terms{std::move(term)} {}
Loss::Loss(Array penalty) : penalties{std::move(penalty)} {}

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
  if (!weight.has_value()) {
    const Array rows = weighed_values(wide, 1);
    const Array count = full({}, static_cast<double>(rows.dim(0)), rows.dtype());
    return {sum(rows), pvary(count, rows.type().varying)};
  }
  nn::check_real("weighted", "weights", weight);
  if (!nn::counting(wide, weight).has_value()) {
    throw ShapeError("[weighted] the values have " + std::to_string(values.dim(0)) + " rows and shape " +
                     to_string(values.shape()) + ", the weights shape " + to_string(weight.shape()) +
                     "; give one weight per row, or weights of another leading part of that shape");
  }
  const Array rows = weighed_values(wide, weight.ndim());
  const Array w = stop_gradient(convert(weight, rows.dtype()));
  // Masked before the product: 0 * NaN is NaN, and so is its derivative.
  return {sum(where(w == 0, 0, rows) * w), sum(w)};
}

Array l1_penalty(const Tree& parameters, double factor) {
  nn::check_option(factor >= 0 && std::isfinite(factor), "l1_penalty", "factor", factor, "finite and 0 or more");
  Array total = full({}, 0.0, float32);
  for (const Array& leaf : parameters.leaves()) {
    if (is_float(leaf.dtype())) total = total + sum(abs(nn::wide(leaf)));
  }
  return factor * total;
}

Array l2_penalty(const Tree& parameters, double factor) {
  nn::check_option(factor >= 0 && std::isfinite(factor), "l2_penalty", "factor", factor, "finite and 0 or more");
  Array total = full({}, 0.0, float32);
  for (const Array& leaf : parameters.leaves()) {
    if (is_float(leaf.dtype())) total = total + sum(square(nn::wide(leaf)));
  }
  return factor * total;
}

}  // namespace lockstep
