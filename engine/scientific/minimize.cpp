#include <utility>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/ravel_tree.h>
#include <lockstep/scientific/minimize.h>
#include <lockstep/transforms.h>

namespace lockstep::detail {

namespace {

/// A place, the function and its gradient there.
struct Point {
  Array x, value, gradient;
};
LOCKSTEP_TREE(Point, x, value, gradient);

struct QuasiNewton {
  Point point;
  Array inverse, iterations, stuck;
};
LOCKSTEP_TREE(QuasiNewton, point, inverse, iterations, stuck);

/// Steps between which a good one lies, and the last one tried.
struct Bracket {
  Array low, high, step, done, tries;
  Point point;
};
LOCKSTEP_TREE(Bracket, low, high, step, done, tries, point);

using Evaluate = std::function<Point(const Array&)>;

Array dot(const Array& a, const Array& b) { return sum(a * b); }

/// A step along the direction at which the value is low enough and the slope flat enough.
Bracket line_search(const Evaluate& evaluate, const Point& from, const Array& direction) {
  constexpr double sufficient = 1e-4, curvature = 0.9;
  constexpr int most = 50;
  const Array slope = dot(from.gradient, direction);
  const Array zero = zeros_like(slope), one = ones_like(slope), no = full({}, false, bool_);
  const Bracket start{zero, full_like(slope, -1), one, no, zeros({}, int32), from};
  const auto go_on = [](const Bracket& b) { return logical_and(logical_not(b.done), b.tries < most); };
  const auto try_step = [&](const Bracket& b) {
    const Point point = evaluate(from.x + b.step * direction);
    const Array low_enough = point.value <= from.value + sufficient * b.step * slope;
    const Array flat_enough = dot(point.gradient, direction) >= curvature * slope;
    const Array low = where(low_enough, b.step, b.low), high = where(low_enough, b.high, b.step);
    const Array done = logical_and(low_enough, flat_enough);
    const Array next = where(high < 0, b.step * 2, low + (high - low) * 0.5);
    return Bracket{low, high, where(done, b.step, next), done, b.tries + 1, point};
  };
  return lockstep::while_loop(go_on, try_step, start);
}

/// The inverse of the second derivatives after a step s that changed the gradient by y.
Array updated(const Array& inverse, const Array& s, const Array& y, const Array& is_first) {
  const Array along = dot(s, y), good = along > 0;
  const Array rho = 1 / where(good, along, 1);
  const Array scaled = where(is_first, inverse * (along / where(good, dot(y, y), 1)), inverse);
  const Array turned = matmul(scaled, y);
  const Array cross = linalg::outer(turned, s);
  const Array next =
      scaled - rho * (cross + transpose(cross)) + linalg::outer(s, s) * (rho * (1 + rho * dot(y, turned)));
  return where(good, next, inverse);
}

}  // namespace

Minimum<Tree> minimize(const TreeFunction& f, const Tree& start, const MinimizeOptions& options) {
  const auto [flat, unravel] = ravel_tree(start);
  const std::int64_t limit = options.max_iterations.value_or(200 * flat.size());
  if (!(options.tolerance >= 0) || limit < 0) {
    throw ValueError(
        fmt::format("minimize: tolerance is {}, max_iterations {}; expected none below 0", options.tolerance, limit));
  }
  if (!is_float(flat.dtype())) {
    throw DtypeError(fmt::format("minimize: the start is {}; expected floats: convert it", to_string(start)));
  }
  const auto value = [&, unravel = unravel](const Array& x) {
    const Array result = f({unravel(x)}).array();
    if (result.ndim() == 0) return result;
    throw ShapeError(fmt::format("minimize: the function gives {}; expected a scalar: reduce it with sum or mean",
                                 to_string(result.type())));
  };
  const Evaluate evaluate = [&](const Array& x) {
    const auto [y, gradient] = lockstep::value_and_grad(value)(x);
    return Point{x, convert(y, x.dtype()), gradient};
  };
  const auto largest = [](const Point& point) {
    return point.x.size() == 0 ? zeros({}, point.x.dtype()) : max(abs(point.gradient));
  };
  const auto go_on = [&](const QuasiNewton& s) {
    return logical_and(logical_and(largest(s.point) > options.tolerance, s.iterations < limit), logical_not(s.stuck));
  };
  const auto step = [&](const QuasiNewton& s) {
    const Array newton = -matmul(s.inverse, s.point.gradient);
    const Array direction = where(dot(newton, s.point.gradient) < 0, newton, -s.point.gradient);
    const Bracket found = line_search(evaluate, s.point, direction);
    const Array lower = found.point.value <= s.point.value;
    const auto chosen = [&](const Array& there, const Array& here) { return where(lower, there, here); };
    const Point next{chosen(found.point.x, s.point.x), chosen(found.point.value, s.point.value),
                     chosen(found.point.gradient, s.point.gradient)};
    const Array inverse = updated(s.inverse, next.x - s.point.x, next.gradient - s.point.gradient, s.iterations == 0);
    return QuasiNewton{next, inverse, s.iterations + 1, all(next.x == s.point.x)};
  };
  const QuasiNewton first{evaluate(flat), eye(flat.size(), flat.dtype()), zeros({}, int32), full({}, false, bool_)};
  const QuasiNewton last = lockstep::while_loop(go_on, step, first);
  return {unravel(last.point.x),
          last.point.value,
          unravel(last.point.gradient),
          last.inverse,
          largest(last.point) <= options.tolerance,
          last.iterations};
}

}  // namespace lockstep::detail
