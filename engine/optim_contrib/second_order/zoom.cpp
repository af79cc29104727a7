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

constexpr const char* zoom_name = "scale_by_zoom_linesearch";

void check_zoom_options(const ZoomOptions& o) {
  check_count(zoom_name, "max_steps", o.max_steps);
  check_positive(zoom_name, "max_rate", o.max_rate.value_or(1));
  check_not_negative(zoom_name, "tolerance", o.tolerance);
  check_not_negative(zoom_name, "slope_share", o.slope_share);
  check_not_negative(zoom_name, "curvature_share", o.curvature_share);
  check_not_negative(zoom_name, "approximate", o.approximate.value_or(0));
  check_not_negative(zoom_name, "least_interval", o.least_interval);
  if (!(o.increase > 1))
    throw ValueError(fmt::format("[{}] increase is {}; it must be above 1", zoom_name, o.increase));
}

/// A place on the line.
struct Place {
  Array rate, value, slope;
};
LOCKSTEP_TREE(Place, rate, value, slope);

/// The last place tried, an interval once it is found (values at `high` are not below those at `low`), a third place for
/// cubics, and the best place that lowered the loss enough.
struct ZoomSearch {
  Array steps, found, done, failed, decrease_error, curvature_error;
  Place tried, low, high, third;
  Tree gradient;
  Array safe_rate, safe_value;
  Tree safe_gradient;
};
LOCKSTEP_TREE(ZoomSearch, steps, found, done, failed, decrease_error, curvature_error, tried, low, high, third,
              gradient, safe_rate, safe_value, safe_gradient);

/// `a` where the scalar holds.
template <class T>
T chosen(const Array& predicate, const T& a, const T& b) {
  return from_tree<T>(choose(predicate, to_tree(a), to_tree(b)));
}

/// x / y, and where y is 0 a number that lies in no interval.
Array quotient(const Array& x, const Array& y) { return where(y == 0, -1, x / where(y == 0, 1, y)); }

/// The minimum of the cubic through two places and a third one's value, with the first one's slope; -1 where there is none.
Array cubic_minimum(const Place& a, const Place& b, const Place& c) {
  const Array to_b = b.rate - a.rate, to_c = c.rate - a.rate;
  const Array divisor = square(to_b * to_c) * (to_b - to_c);
  const Array rise_b = b.value - a.value - a.slope * to_b, rise_c = c.value - a.value - a.slope * to_c;
  const Array third = quotient(square(to_c) * rise_b - square(to_b) * rise_c, divisor);
  const Array second = quotient(to_b * square(to_b) * rise_c - to_c * square(to_c) * rise_b, divisor);
  const Array radical = square(second) - 3.0 * third * a.slope;
  const Array exists = logical_and(logical_and(radical >= 0, third != 0), divisor != 0);
  const Array root = sqrt(where(exists, radical, 0));
  return where(exists, a.rate + quotient(root - second, 3.0 * third), -1);
}

/// The minimum of the parabola through two places with the first one's slope; -1 where there is none.
Array parabola_minimum(const Place& a, const Place& b) {
  const Array way = b.rate - a.rate;
  const Array second = quotient(b.value - a.value - a.slope * way, square(way));
  const Array exists = logical_and(way != 0, second != 0);
  return where(exists, a.rate - quotient(a.slope, 2.0 * second), -1);
}

/// A rate within the interval: the cubic's minimum, the parabola's, or the middle.
Array within_interval(const Place& low, const Place& high, const Place& third) {
  const Array left = minimum(low.rate, high.rate), right = maximum(low.rate, high.rate), length = right - left;
  const auto is_inside = [&](const Array& rate, double margin) {
    return logical_and(rate > left + margin * length, rate < right - margin * length);
  };
  const Array cubic = cubic_minimum(low, high, third), parabola = parabola_minimum(low, high);
  const Array otherwise = where(is_inside(parabola, 0.1), parabola, (low.rate + high.rate) / 2.0);
  return where(is_inside(cubic, 0.2), cubic, otherwise);
}

class Zoom {
 public:
  Zoom(const ZoomOptions& options, const Line& line, Array guess)
      : o_(options), line_(line), guess_(std::move(guess)) {}

  ZoomSearch start() const {
    const Line::Point& at = line_.start();
    const Array zero = zeros_like(at.slope), worst = full_like(at.slope, infinity), no = full({}, false, bool_);
    const Place place{zero, at.value, at.slope};
    return {first_count(), no,    no,    no,          worst, worst,    place,
            place,         place, place, at.gradient, zero,  at.value, at.gradient};
  }

  /// One more evaluation: a longer step until there is an interval, then one within it.
  ZoomSearch next(const ZoomSearch& s) const {
    Array longer = where(s.steps == 0, guess_, o_.increase * s.tried.rate), is_longest = full({}, false, bool_);
    if (o_.max_rate) {
      is_longest = longer >= *o_.max_rate;
      longer = minimum(longer, *o_.max_rate);
    }
    const Array rate = where(s.found, within_interval(s.low, s.high, s.third), longer);
    const Line::Point point = line_.point_at(rate);
    ZoomSearch next = s;
    next.tried = {rate, point.value, point.slope};
    next.gradient = point.gradient;
    next.steps = s.steps + 1;
    next.decrease_error = decrease_error(next.tried);
    next.curvature_error = at_least_0(abs(point.slope) - o_.curvature_share * abs(line_.start().slope));
    const Array is_low_enough = next.decrease_error <= o_.tolerance;
    const Array is_safe = logical_and(is_low_enough, logical_or(logical_not(s.found), next.tried.value < s.safe_value));
    next.safe_rate = where(is_safe, rate, s.safe_rate);
    next.safe_value = where(is_safe, point.value, s.safe_value);
    next.safe_gradient = choose(is_safe, point.gradient, s.safe_gradient);
    return chosen(s.found, narrowed(s, next), widened_search(s, next, is_longest));
  }

 private:
  static Array at_least_0(const Array& error) { return maximum(error, 0.0); }
  Array is_good(const ZoomSearch& s) const { return maximum(s.decrease_error, s.curvature_error) <= o_.tolerance; }

  /// How much the loss is above what either condition of Armijo or of Hager and Zhang asks for.
  Array decrease_error(const Place& at) const {
    const Line::Point& from = line_.start();
    Array error = at.value - from.value - o_.slope_share * at.rate * from.slope;
    if (o_.approximate) {
      const Array slopes = at.slope - (2.0 * o_.slope_share - 1.0) * from.slope;
      const Array values = at.value - from.value - *o_.approximate * abs(from.value);
      error = minimum(maximum(slopes, values), error);
    }
    return where(isnan(error), infinity, at_least_0(error));
  }

  /// Algorithm 3.5: whether the place tried closes an interval.
  ZoomSearch widened_search(const ZoomSearch& s, ZoomSearch next, const Array& is_longest) const {
    const Array is_high =
        logical_or(next.decrease_error > 0, logical_and(next.tried.value >= s.tried.value, s.steps > 0));
    const Array is_low = logical_and(next.tried.slope >= 0, logical_not(is_high));
    next.low = chosen(is_low, next.tried, s.tried);
    next.high = chosen(is_low, s.tried, next.tried);
    next.third = next.low;
    const Array good = is_good(next);
    next.found = logical_or(logical_or(is_high, is_low), good);
    next.done = logical_or(good, logical_and(is_longest, logical_not(next.found)));
    next.failed = logical_and(next.steps >= o_.max_steps, logical_not(next.done));
    return next;
  }

  /// Algorithm 3.6: the interval with the place tried as one of its ends.
  ZoomSearch narrowed(const ZoomSearch& s, ZoomSearch next) const {
    const Array is_high = logical_or(next.decrease_error > 0, next.tried.value >= s.low.value);
    const Array turns = logical_and(next.tried.slope * (s.high.rate - s.low.rate) >= 0, logical_not(is_high));
    next.high = chosen(turns, s.low, chosen(is_high, next.tried, s.high));
    next.low = chosen(is_high, s.low, next.tried);
    next.third = chosen(logical_or(is_high, turns), s.high, s.low);
    const Array is_short = abs(s.high.rate - s.low.rate) <= o_.least_interval;
    next.done = is_good(next);
    next.failed = logical_and(logical_or(next.steps >= o_.max_steps, logical_and(is_short, next.safe_rate > 0)),
                              logical_not(next.done));
    return next;
  }

  const ZoomOptions& o_;
  const Line& line_;
  Array guess_;
};

/// What a search leads to.
struct Found {
  Array rate, value;
  Tree gradient;
};

Found result_of(const ZoomSearch& s) {
  const Array takes_safe = logical_and(s.failed, logical_or(s.safe_rate > 0, isinf(s.decrease_error)));
  return {where(takes_safe, s.safe_rate, s.tried.rate), where(takes_safe, s.safe_value, s.tried.value),
          choose(takes_safe, s.safe_gradient, s.gradient)};
}

}  // namespace

GradientTransformation scale_by_zoom_linesearch(ZoomOptions options) {
  check_zoom_options(options);
  auto init = [](const Tree& params) {
    check_real(zoom_name, params);
    const auto number = [&](double value) { return Tree(full({}, value, dtype_of_sums(params))); };
    return Tree::dict({{"learning_rate", number(1)},
                       {"value", number(infinity)},
                       {"grad", zeros_of(params)},
                       {"steps", Tree(first_count())},
                       {"decrease_error", number(infinity)},
                       {"curvature_error", number(infinity)}});
  };
  auto rule = [o = options](const Tree& updates, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Line line(loss, params, updates);
    const Array last = convert(state.at("learning_rate").array(), line.dtype());
    const Zoom zoom(o, line, o.keeps_rate ? last : ones_like(last));
    const ZoomSearch end =
        lockstep::while_loop([](const ZoomSearch& s) { return logical_not(logical_or(s.done, s.failed)); },
                             [&](const ZoomSearch& s) { return zoom.next(s); }, zoom.start());
    Found found = result_of(end);
    return std::pair(line.step(found.rate), Tree::dict({{"learning_rate", Tree(found.rate)},
                                                        {"value", Tree(found.value)},
                                                        {"grad", std::move(found.gradient)},
                                                        {"steps", Tree(end.steps)},
                                                        {"decrease_error", Tree(end.decrease_error)},
                                                        {"curvature_error", Tree(end.curvature_error)}}));
  };
  return needing_function(init, rule);
}

}  // namespace lockstep::optim
