#include <utility>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/optim_contrib/second_order.h>

#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"
#include "engine/optim_contrib/second_order/line_search.h"

namespace lockstep::optim {
namespace {

constexpr const char* backtracking_name = "scale_by_backtracking_linesearch";

void check_backtracking_options(const BacktrackingOptions& o) {
  check_count(backtracking_name, "max_steps", o.max_steps);
  check_not_negative(backtracking_name, "slope_share", o.slope_share);
  check_positive(backtracking_name, "max_rate", o.max_rate);
  check_not_negative(backtracking_name, "absolute", o.absolute);
  check_not_negative(backtracking_name, "relative", o.relative);
  if (o.decrease > 0 && o.decrease < 1 && o.increase >= 1) return;
  throw ValueError(
      fmt::format("[{}] decrease is {} and increase {}; decrease is above 0 and below 1, increase at least 1",
                  backtracking_name, o.decrease, o.increase));
}

/// What the search has come to.
struct BacktrackingSearch {
  Array rate, value, error, steps;
};
LOCKSTEP_TREE(BacktrackingSearch, rate, value, error, steps);

BacktrackingSearch backtracked(const BacktrackingOptions& o, const Line& line, const Array& last_rate) {
  const Array first = minimum(o.increase * last_rate, o.max_rate);
  const auto goes_on = [&](const BacktrackingSearch& s) {
    return logical_and(logical_not(s.error <= o.absolute), s.steps <= o.max_steps);
  };
  const auto shorter = [&](const BacktrackingSearch& s) {
    const Array rate = where(s.steps > 0, o.decrease * s.rate, s.rate);
    const Array value = line.value_at(rate);
    const Array missed = value - (1.0 + o.relative) * line.start().value - rate * o.slope_share * line.start().slope;
    return BacktrackingSearch{rate, value, maximum(where(isnan(missed), infinity, missed), 0.0), s.steps + 1};
  };
  const Array worst = full_like(first, infinity);
  return lockstep::while_loop(goes_on, shorter, BacktrackingSearch{first, line.start().value, worst, first_count()});
}

}  // namespace

GradientTransformation scale_by_backtracking_linesearch(BacktrackingOptions options) {
  check_backtracking_options(options);
  auto init = [o = options](const Tree& params) {
    check_real(backtracking_name, params);
    const auto number = [&](double value) { return Tree(full({}, value, dtype_of_sums(params))); };
    const Tree state = Tree::dict({{"learning_rate", number(1)},
                                   {"value", number(infinity)},
                                   {"steps", Tree(first_count())},
                                   {"error", number(infinity)}});
    return o.keeps_gradient ? state.with("grad", zeros_of(params)) : state;
  };
  auto rule = [o = options](const Tree& updates, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Line line(loss, params, updates);
    const BacktrackingSearch found = backtracked(o, line, convert(state.at("learning_rate").array(), line.dtype()));
    const Array rate = where(isinf(found.error), 0, found.rate);
    const Tree next = Tree::dict({{"learning_rate", Tree(rate)},
                                  {"value", Tree(found.value)},
                                  {"steps", Tree(found.steps)},
                                  {"error", Tree(found.error)}});
    Tree scaled = line.step(rate);
    if (!o.keeps_gradient) return std::pair(std::move(scaled), next);
    return std::pair(std::move(scaled), next.with("grad", line.point_at(rate).gradient));
  };
  return needing_function(init, rule);
}

}  // namespace lockstep::optim
