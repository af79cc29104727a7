#include <utility>

#include <lockstep/optimizer_wrappers.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

namespace lockstep::optim {
namespace {

std::pair<Tree, Tree> accumulated(const GradientTransformation& inner, const Schedule& k,
                                  const MultiStepsOptions& options, const Tree& gradients, const Tree& state,
                                  const Tree& params, const KnownLoss& loss) {
  const Array mini_step = state.at("mini_step").array(), gradient_step = state.at("gradient_step").array();
  const Array steps = convert(k(gradient_step), int32);
  const Array taken = options.skip ? logical_not(options.skip(gradients)) : full({}, true, bool_);
  const Tree sums =
      map_pairs([](const Array& a, const Array& g) { return a + wide(g); }, state.at("gradients"), gradients);
  const Array share = options.mean ? 1.0 / (convert(mini_step, float64) + 1.0) : full({}, 1.0, float64);
  const Tree seen = map([&](const Array& a) { return times(share, a); }, sums);
  auto [updates, after] = update(inner, seen, state.at("inner"), params, loss);
  const Array is_last = mini_step + 1 >= steps;
  const Array emits = logical_and(taken, is_last);
  const Tree cleared = map([&](const Array& a) { return where(is_last, 0.0, a); }, sums);
  Tree next = Tree::dict({{"mini_step", Tree(where(taken, where(is_last, 0, mini_step + 1), mini_step))},
                          {"gradient_step", Tree(where(emits, gradient_step + 1, gradient_step))},
                          {"gradients", options.skip ? choose(taken, cleared, state.at("gradients")) : cleared},
                          {"inner", choose(emits, after, state.at("inner"))}});
  return {updates_where(emits, updates), std::move(next)};
}

}  // namespace

GradientTransformation multi_steps(GradientTransformation inner, std::int64_t k, MultiStepsOptions options) {
  check_count("multi_steps", "k", k);
  return multi_steps(std::move(inner), schedules::constant(static_cast<double>(k)), std::move(options));
}

GradientTransformation multi_steps(GradientTransformation inner, Schedule k, MultiStepsOptions options) {
  refuse_function("multi_steps",
                  "its gradients are the mean of several batches, and the loss is that of the last; take "
                  "DataParallelOptions::microbatches, which are one batch",
                  inner);
  auto init = [inner](const Tree& params) {
    return Tree::dict({{"mini_step", Tree(first_count())},
                       {"gradient_step", Tree(first_count())},
                       {"gradients", zeros_of(params)},
                       {"inner", inner.init(params)}});
  };
  const bool linear = inner.linear && !options.skip;
  auto update_every = [inner, k = std::move(k), options = std::move(options)](
                          const Tree& gradients, const Tree& state, const Tree& params, const KnownLoss& loss) {
    return accumulated(inner, k, options, gradients, state, params, loss);
  };
  GradientTransformation all = wrapping({inner}, init, update_every);
  all.linear = linear;
  return all;
}

Array has_updated(const Tree& multi_steps_state) {
  return logical_and(multi_steps_state.at("mini_step").array() == 0, multi_steps_state.at("gradient_step").array() > 0);
}

Array not_finite(const Tree& gradients) { return logical_not(all_finite(gradients)); }

std::function<Array(const Tree&)> norm_is_not_below(double max_squared_norm) {
  check_positive("norm_is_not_below", "max_squared_norm", max_squared_norm);
  return [max_squared_norm](const Tree& gradients) {
    Array total = full({}, 0.0, float32);
    for (const Array& leaf : gradients.leaves()) total = total + sum(magnitude_squared(wide(leaf)));
    return logical_not(total < max_squared_norm);
  };
}

GradientTransformation apply_if_finite(GradientTransformation inner, std::int64_t max_consecutive_errors) {
  check_count("apply_if_finite", "max_consecutive_errors", max_consecutive_errors, 0);
  auto init = [inner](const Tree& params) {
    return Tree::dict({{"not_finite", Tree(first_count())},
                       {"total_not_finite", Tree(first_count())},
                       {"last_finite", Tree(full({}, true, bool_))},
                       {"inner", inner.init(params)}});
  };
  auto update_if = [=](const Tree& gradients, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Array finite = all_finite(gradients);
    const Array in_a_row = where(finite, 0, state.at("not_finite").array() + 1);
    const Array total = state.at("total_not_finite").array();
    const Array applies = logical_or(finite, in_a_row > max_consecutive_errors);
    auto [updates, after] = update(inner, gradients, state.at("inner"), params, loss);
    Tree next = Tree::dict({{"not_finite", Tree(in_a_row)},
                            {"total_not_finite", Tree(where(finite, total, total + 1))},
                            {"last_finite", Tree(finite)},
                            {"inner", choose(applies, after, state.at("inner"))}});
    return std::pair(updates_where(applies, updates), std::move(next));
  };
  return wrapping({inner}, init, update_if);
}

}  // namespace lockstep::optim
