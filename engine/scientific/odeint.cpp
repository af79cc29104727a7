#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/ravel_tree.h>
#include <lockstep/scientific/odeint.h>

#include "engine/api/numpy/operands.h"

namespace lockstep::detail {

namespace {

using Slope = std::function<Array(const Array& y, const Array& t)>;

// The coefficients of Dormand and Prince. The last stage's slope is the next step's first one.
constexpr std::array<double, 6> nodes = {1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1, 1};
constexpr std::array<std::array<double, 6>, 6> stages = {{
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84},
}};
/// The difference of the results of order 5 and 4.
constexpr std::array<double, 7> differences = {35.0 / 384 - 1951.0 / 21600,
                                               0,
                                               500.0 / 1113 - 22642.0 / 50085,
                                               125.0 / 192 - 451.0 / 720,
                                               -2187.0 / 6784 + 12231.0 / 42400,
                                               11.0 / 84 - 649.0 / 6300,
                                               -1.0 / 60};

struct OdeState {
  Array y, slope, t, step;
};
LOCKSTEP_TREE(OdeState, y, slope, t, step);

template <std::size_t N>
Array combined(const std::vector<Array>& slopes, const std::array<double, N>& weights) {
  Array total = slopes[0] * weights[0];
  for (std::size_t i = 1; i < slopes.size(); ++i) {
    if (weights[i] != 0) total = total + slopes[i] * weights[i];
  }
  return total;
}

/// The root of the mean of the squares of the error, each in units of what is allowed; constant to derivatives.
Array error_ratio(const Array& error, const Array& before, const Array& behind, const OdeOptions& options) {
  const Array allowed = options.atol + options.rtol * maximum(abs(before), abs(behind));
  return sqrt(mean(square(stop_gradient(error) / stop_gradient(allowed))));
}

/// Tries one step of at most the state's size, not beyond `end`.
OdeState stepped(const Slope& f, const OdeState& state, const Array& end, const OdeOptions& options) {
  const Array rest = end - state.t;
  const Array is_last = stop_gradient(state.step >= rest);
  const Array h = where(is_last, rest, state.step), width = convert(h, state.y.dtype());
  std::vector<Array> slopes = {state.slope};
  Array y = state.y;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    y = state.y + width * combined(slopes, stages[i]);
    slopes.push_back(f(y, state.t + h * nodes[i]));
  }
  const Array ratio = error_ratio(width * combined(slopes, differences), state.y, y, options);
  const Array taken = ratio <= 1;
  constexpr double safety = 0.9, most = 10, least = 0.2;
  const Array power = pow(maximum(ratio, 1e-10), -0.2) * safety;
  const Array factor = where(isnan(ratio), full_like(ratio, least), clip(power, where(taken, 1.0, least), most));
  // A step that was cut at the end says nothing against larger ones.
  const Array size = stop_gradient(where(logical_and(is_last, taken), maximum(state.step, h * factor), h * factor));
  return {where(taken, y, state.y), where(taken, slopes.back(), state.slope),
          where(taken, where(is_last, end, state.t + h), state.t), convert(size, state.step.dtype())};
}

/// The size of the first step (Hairer, Norsett and Wanner, II.4).
Array first_step(const Slope& f, const Array& y, const Array& slope, const Array& t, const OdeOptions& options) {
  const Array scale = options.atol + abs(y) * options.rtol;
  const auto size = [&](const Array& x) { return sqrt(mean(square(x / scale))); };
  const Array d0 = size(y), d1 = size(slope);
  const Array h0 = where(logical_or(d0 < 1e-5, d1 < 1e-5), 1e-6, 0.01 * d0 / where(d1 == 0, 1, d1));
  const Array bent = f(y + h0 * slope, t + convert(h0, t.dtype())) - slope;
  const Array d2 = size(bent) / h0, larger = maximum(d1, d2);
  const Array h1 = where(larger <= 1e-15, maximum(h0 * 1e-3, 1e-6), pow(0.01 / where(larger <= 0, 1, larger), 0.2));
  return minimum(100 * h0, h1);
}

}  // namespace

Tree odeint(const TreeFunction& f, const Tree& start, const Array& times, const OdeOptions& options) {
  if (times.ndim() != 1 || times.size() == 0) {
    throw ShapeError(
        fmt::format("odeint: times are {}; expected a vector of one element or more", to_string(times.type())));
  }
  if (!(options.rtol >= 0) || !(options.atol >= 0) || options.max_steps < 1) {
    throw ValueError(fmt::format("odeint: rtol is {}, atol {}, max_steps {}; expected none below 0, and a step or more",
                                 options.rtol, options.atol, options.max_steps));
  }
  const auto [flat, unravel] = ravel_tree(start);
  if (!is_float(flat.dtype())) {
    throw DtypeError(
        fmt::format("odeint: the start is {}; expected floats: convert it, or split complex numbers into "
                    "parts",
                    lockstep::to_string(start)));
  }
  const DType dtype = flat.dtype();
  const Array ts = convert(times, promote(dtype, is_float(times.dtype()) ? times.dtype() : float32));
  const Slope slope = [&, unravel = unravel](const Array& y, const Array& t) {
    const Tree here = unravel(convert(y, dtype));
    const Tree result = f({here, Tree(t)});
    check_same_types(here, result, "odeint: the function's result");
    return ravel_tree(result).first;
  };
  const Array first = slope(flat, ts[0]);
  const Array size = first_step(slope, stop_gradient(flat), stop_gradient(first), stop_gradient(ts[0]), options);
  const OdeState state{flat, first, ts[0], convert(stop_gradient(size), ts.dtype())};
  const auto to_next = [&](const OdeState& from, const Array& end) {
    const auto step = [&](const OdeState& s) {
      const auto go = [&](const OdeState& x) { return stepped(slope, x, end, options); };
      return std::pair(cond(
                           s.t < end, go, [](const OdeState& x) { return x; }, s),
                       std::tuple<>());
    };
    OdeState there = lockstep::scan(step, from, {.length = options.max_steps}).first;
    const Array y = where(there.t >= end, there.y, std::numeric_limits<double>::quiet_NaN());
    there.y = y;
    return std::pair(there, y);
  };
  const Array later = slice_in_dim(ts, 1, ts.size(), 0);
  const Array ys = lockstep::scan(to_next, state, later).second;
  const Array all = concatenate({expand_dims(flat, 0), ys}, 0);
  std::vector<Array> leaves;
  std::int64_t from = 0;
  for (const Array& leaf : start.leaves()) {
    const std::int64_t last = from + leaf.size();
    const Shape shape = leaf.shape().insert(0, ts.size());
    leaves.push_back(convert(reshape(slice_in_dim(all, from, last, 1), shape.to_vector()), leaf.dtype()));
    from = last;
  }
  return start.unflatten(std::move(leaves));
}

}  // namespace lockstep::detail
