#include "engine/optim/wrapping.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/optim/moments.h"

namespace lockstep::optim {
namespace {

/// Takes what one of the transformations freezes; empty where none freezes anything.
Mask frozen_by(const std::vector<GradientTransformation>& transformations) {
  std::vector<Mask> masks;
  for (const GradientTransformation& t : transformations) {
    if (t.frozen) masks.push_back(t.frozen);
  }
  if (masks.empty()) return {};
  return [masks = std::move(masks)](std::string_view path) {
    return std::any_of(masks.begin(), masks.end(), [&](const Mask& mask) { return mask(path); });
  };
}

std::vector<Selection> selections_of(const std::vector<GradientTransformation>& transformations) {
  std::vector<Selection> all;
  for (const GradientTransformation& t : transformations) {
    all.insert(all.end(), t.selections.begin(), t.selections.end());
  }
  return all;
}

[[noreturn]] void refuse_without_loss() {
  throw StateError(
      "[update] this transformation needs the loss (reduce_on_plateau, scale_by_polyak), but none was given; call "
      "optim::update(transformation, gradients, state, params, loss)");
}

[[noreturn]] void refuse_without_function() {
  throw StateError(
      "[update] this transformation asks for the loss at other parameters (line searches, sophia), but none was given; "
      "call optim::update(transformation, gradients, state, params, {loss, function}), the function being the loss of "
      "the same batch");
}

bool any_needs_function(const std::vector<GradientTransformation>& transformations) {
  return std::any_of(transformations.begin(), transformations.end(),
                     [](const GradientTransformation& t) { return t.needs_function; });
}

}  // namespace

std::pair<Tree, Tree> update(const GradientTransformation& transformation, const Tree& gradients, const Tree& state,
                             const Tree& params, const KnownLoss& loss) {
  if (!transformation.update_with_loss) return transformation.update(gradients, state, params);
  if (!transformation.needs_function) {
    if (!loss.value.has_value()) refuse_without_loss();
    return transformation.update_with_loss(gradients, state, params, loss);
  }
  if (!loss.value.has_value() || !loss.function) refuse_without_function();
  KnownLoss known = loss;
  if (known.gradients.kind() == Tree::Kind::none) known.gradients = gradients;
  return transformation.update_with_loss(gradients, state, params, known);
}

GradientTransformation wrapping(const std::vector<GradientTransformation>& inner, std::function<Tree(const Tree&)> init,
                                UpdateWithLoss update) {
  const bool needs_loss =
      std::any_of(inner.begin(), inner.end(), [](const GradientTransformation& t) { return bool(t.update_with_loss); });
  auto without_loss = [update](const Tree& gradients, const Tree& state, const Tree& params) {
    return update(gradients, state, params, {});
  };
  return {.init = std::move(init),
          .update = std::move(without_loss),
          .frozen = frozen_by(inner),
          .selections = selections_of(inner),
          .update_with_loss = needs_loss ? std::move(update) : UpdateWithLoss(),
          .needs_function = any_needs_function(inner)};
}

GradientTransformation needing_loss(std::function<Tree(const Tree&)> init, UpdateWithLoss update) {
  const auto refused = [](const Tree&, const Tree&, const Tree&) -> std::pair<Tree, Tree> { refuse_without_loss(); };
  return {.init = std::move(init), .update = refused, .update_with_loss = std::move(update)};
}

GradientTransformation needing_function(std::function<Tree(const Tree&)> init, UpdateWithLoss update) {
  const auto refused = [](const Tree&, const Tree&, const Tree&) -> std::pair<Tree, Tree> {
    refuse_without_function();
  };
  return {.init = std::move(init), .update = refused, .update_with_loss = std::move(update), .needs_function = true};
}

void refuse_function(std::string_view function, std::string_view reason, const GradientTransformation& inner) {
  if (!inner.needs_function) return;
  throw ValueError(
      fmt::format("[{}] the inner transformation asks for the loss at other parameters: {}", function, reason));
}

GradientTransformation leafwise(std::function<Array(const Array& update, const Array& param)> rule) {
  return {no_state, [rule = std::move(rule)](const Tree& updates, const Tree& state, const Tree& params) {
            const auto wide_rule = [&](const Array& u, const Array& p) { return rule(wide(u), p); };
            return std::pair(map_pairs(wide_rule, updates, params), state);
          }};
}

Tree choose(const Array& predicate, const Tree& chosen, const Tree& otherwise) {
  return map_pairs([&](const Array& a, const Array& b) { return where(predicate, a, b); }, chosen, otherwise);
}

Tree updates_where(const Array& predicate, const Tree& updates) {
  return map([&](const Array& u) { return where(predicate, u, -0.0); }, updates);
}

}  // namespace lockstep::optim
