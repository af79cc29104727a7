#include <limits>
#include <tuple>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/scientific/solvers.h>
#include <lockstep/transforms.h>

#include "engine/api/linalg/matrices.h"
#include "engine/api/numpy/operands.h"

namespace lockstep::detail {

namespace {

/// The root that `solve` finds from any start, with the derivative of an equation that holds element by element.
Array element_roots(const TreeFunction& f, const Array& start, const std::function<Array(const Array&)>& solve) {
  const SolveWith find = [&](const TreeFunction&, const Tree& from) { return Tree(solve(from.array())); };
  const SolveWith divide = [](const TreeFunction& linear, const Tree& b) {
    return Tree(b.array() / linear({Tree(ones_like(b.array()))}).array());
  };
  return custom_root(f, Tree(start), find, divide).array();
}

double tolerance_of(const RootOptions& options, DType dtype) {
  if (!(options.tolerance >= 0) || options.max_iterations < 0) {
    throw ValueError(fmt::format("bisect, newton: tolerance is {}, max_iterations {}; expected none below 0",
                                 options.tolerance, options.max_iterations));
  }
  return options.tolerance == 0 ? api::epsilon(dtype) : options.tolerance;
}

}  // namespace

Array bisect(const TreeFunction& f, const Array& low, const Array& high, const RootOptions& options) {
  using State = std::tuple<Array, Array, Array>;
  const Operand a = low, b = high;
  const std::vector<Array> ends = api::aligned("bisect", {&a, &b}, api::inexact(api::common_dtype({low, high})));
  const double tolerance = tolerance_of(options, ends[0].dtype());
  const auto value = [&](const Array& x) { return f({Tree(x)}).array(); };
  const auto solve = [&](const Array& from) {
    const Array first = sign(value(from)), last = sign(value(ends[1]));
    const auto go_on = [&](const State& state) {
      const auto& [l, h, k] = state;
      const Array wide = any((h - l) * 0.5 > tolerance * (1 + abs(l)));
      return logical_and(wide, k < options.max_iterations);
    };
    const auto step = [&](const State& state) {
      const auto& [l, h, k] = state;
      const Array middle = l + (h - l) * 0.5, here = sign(value(middle));
      const Array on_left = here == first;
      return State(where(on_left, middle, l), where(on_left, h, middle), k + 1);
    };
    const auto [l, h, k] = while_loop(go_on, step, State(from, ends[1], zeros({}, int32)));
    const Array root = where(first == 0, from, where(last == 0, ends[1], l + (h - l) * 0.5));
    return where(first * last > 0, std::numeric_limits<double>::quiet_NaN(), root);
  };
  return element_roots(f, ends[0], solve);
}

Array newton(const TreeFunction& f, const Array& start, const RootOptions& options) {
  using State = std::tuple<Array, Array, Array>;
  const Array from = convert(start, api::inexact(start.dtype()));
  const double tolerance = tolerance_of(options, from.dtype());
  const auto solve = [&](const Array& first) {
    const auto go_on = [&](const State& state) {
      return logical_and(std::get<1>(state), std::get<2>(state) < options.max_iterations);
    };
    const auto step = [&](const State& state) {
      const auto& [x, moving, k] = state;
      const auto [y, slope] = jvp(f, {Tree(x)}, {Tree(ones_like(x))});
      const Array distance = where(y.array() == 0, zeros_like(x), y.array() / slope.array());
      return State(x - distance, any(abs(distance) > tolerance * (1 + abs(x))), k + 1);
    };
    return std::get<0>(while_loop(go_on, step, State(first, full({}, true, bool_), zeros({}, int32))));
  };
  return element_roots(f, from, solve);
}

}  // namespace lockstep::detail
