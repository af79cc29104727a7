#include "engine/optim_contrib/second_order/line_search.h"

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/optim_contrib/second_order.h>
#include <lockstep/transforms.h>

#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"

namespace lockstep::optim {
namespace {

std::pair<Array, Tree> value_and_gradient(const ValueFunction& loss, const Tree& params) {
  const auto function = [&](const Tree& at) { return loss(at); };
  auto [value, gradient] = lockstep::value_and_grad(function)(params);
  return {std::move(value), widened(gradient)};
}

/// The first sub-tree that has both, or null.
const Tree* with_value_and_grad(const Tree& state) {
  if (state.kind() == Tree::Kind::dict) {
    if (state.contains("value") && state.contains("grad")) return &state;
    for (const auto& [name, entry] : state.entries()) {
      if (const Tree* found = with_value_and_grad(entry)) return found;
    }
  } else if (state.kind() == Tree::Kind::list) {
    for (const Tree& item : state.items()) {
      if (const Tree* found = with_value_and_grad(item)) return found;
    }
  }
  return nullptr;
}

}  // namespace

Line::Line(const KnownLoss& loss, Tree params, Tree updates)
    : loss_(loss.function), params_(std::move(params)), updates_(widened(updates)) {
  start_.gradient = widened(loss.gradients);
  start_.slope = inner_product(start_.gradient, updates_);
  start_.value = convert(loss.value, start_.slope.dtype());
}

Tree Line::step(const Array& rate) const {
  return map([&](const Array& u) { return times(rate, u); }, updates_);
}

Tree Line::place(const Array& rate) const { return apply_updates(params_, step(rate)); }

Array Line::value_at(const Array& rate) const { return convert(loss_(place(rate)), dtype()); }

Line::Point Line::point_at(const Array& rate) const {
  auto [value, gradient] = value_and_gradient(loss_, place(rate));
  const Array slope = inner_product(gradient, updates_);
  return {convert(value, dtype()), slope, std::move(gradient)};
}

std::pair<Array, Tree> value_and_grad_from_state(const ValueFunction& loss, const Tree& params, const Tree& state) {
  const Tree* known = with_value_and_grad(state);
  if (known == nullptr) {
    throw StateError(
        "[value_and_grad_from_state] the state, " + state.structure() +
        ", has no \"value\" and \"grad\"; give that of scale_by_zoom_linesearch, of lbfgs with a search, or of "
        "scale_by_backtracking_linesearch with keeps_gradient");
  }
  const Array value = known->at("value").array();
  const Tree& gradient = known->at("grad");
  const auto stored = [&](const Tree&) { return std::pair(value, gradient); };
  const auto computed = [&](const Tree& at) {
    auto [found, slopes] = value_and_gradient(loss, at);
    const auto like = [](const Array& x, const Array& kept) { return convert(x, kept.dtype()); };
    return std::pair(convert(found, value.dtype()), map_pairs(like, slopes, gradient));
  };
  return lockstep::cond(is_finite(value), stored, computed, params);
}

}  // namespace lockstep::optim
