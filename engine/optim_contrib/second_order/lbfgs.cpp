#include <utility>

#include <lockstep/optim_contrib/second_order.h>

#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"

namespace lockstep::optim {
namespace {

Tree difference(const Tree& a, const Tree& b) {
  return map_pairs([](const Array& x, const Array& y) { return wide(x) - y; }, a, b);
}

/// What the recursion knows of the curvature, oldest first.
struct Curvature {
  std::vector<Tree> moves;    ///< Differences of parameters.
  std::vector<Tree> changes;  ///< Differences of gradients.
  std::vector<Array> weights;
};

/// The two-loop recursion.
Tree preconditioned(Tree direction, const Curvature& known, const Array& identity_scale) {
  std::vector<Array> shares(known.moves.size());
  for (std::size_t i = known.moves.size(); i-- > 0;) {
    shares[i] = known.weights[i] * inner_product(known.moves[i], direction);
    direction = plus(direction, -shares[i], known.changes[i]);
  }
  direction = map([&](const Array& d) { return times(identity_scale, d); }, direction);
  for (std::size_t i = 0; i < known.moves.size(); ++i) {
    const Array share = known.weights[i] * inner_product(known.changes[i], direction);
    direction = plus(direction, shares[i] - share, known.moves[i]);
  }
  return direction;
}

Tree first_lbfgs_state(const Tree& params, std::int64_t memory) {
  check_real("lbfgs", params);
  const std::vector<Tree> none(static_cast<std::size_t>(memory), zeros_of(params));
  const Array zero = full({}, 0.0, dtype_of_sums(params));
  return Tree::dict({{"count", Tree(first_count())},
                     {"params", zeros_of(params)},
                     {"gradients", zeros_of(params)},
                     {"moves", Tree::list(none)},
                     {"changes", Tree::list(none)},
                     {"weights", Tree::list(std::vector<Tree>(static_cast<std::size_t>(memory), Tree(zero)))}});
}

/// The list without its oldest, with a new one.
Tree moved_on(const Tree& list, Tree newest) {
  std::vector<Tree> items(list.items().begin() + 1, list.items().end());
  items.push_back(std::move(newest));
  return Tree::list(std::move(items));
}

std::pair<Tree, Tree> lbfgs_update(const Tree& gradients, const Tree& state, const Tree& params) {
  const Array count = state.at("count").array();
  const Array is_first = count == 0;
  const auto unless_first = [&](const Array& x) { return where(is_first, 0.0, x); };
  const Tree g = widened(gradients);
  const Tree move = map(unless_first, difference(params, state.at("params")));
  const Tree change = map(unless_first, difference(g, state.at("gradients")));
  const Array curvature = inner_product(change, move), size = inner_product(change, change);
  const Array weight = where(curvature == 0, 0.0, 1.0 / where(curvature == 0, 1.0, curvature));
  const Array norm = sqrt(inner_product(g, g));
  const Array first_scale = minimum(1.0, 1.0 / norm);
  const Array later_scale = where(size > 0, curvature / where(size > 0, size, 1.0), 1.0);
  Tree moves = moved_on(state.at("moves"), move), changes = moved_on(state.at("changes"), change);
  Tree weights = moved_on(state.at("weights"), Tree(weight));
  Curvature known{
      {moves.items().begin(), moves.items().end()}, {changes.items().begin(), changes.items().end()}, weights.leaves()};
  Tree updates = preconditioned(g, known, where(is_first, first_scale, later_scale));
  return {std::move(updates), Tree::dict({{"count", Tree(count + 1)},
                                          {"params", widened(params)},
                                          {"gradients", g},
                                          {"moves", std::move(moves)},
                                          {"changes", std::move(changes)},
                                          {"weights", std::move(weights)}})};
}

}  // namespace

GradientTransformation scale_by_lbfgs(std::int64_t memory) {
  check_count("lbfgs", "memory", memory);
  return {[memory](const Tree& params) { return first_lbfgs_state(params, memory); }, lbfgs_update};
}

GradientTransformation lbfgs(LearningRate rate, std::int64_t memory) {
  return chain(scale_by_lbfgs(memory), scale_by_learning_rate(std::move(rate)));
}

GradientTransformation lbfgs(LbfgsOptions options) {
  return chain(scale_by_lbfgs(options.memory), scale(-1), scale_by_zoom_linesearch(options.search));
}

}  // namespace lockstep::optim
