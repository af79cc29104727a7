#include <limits>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/optim_contrib/projections.h>
#include <lockstep/ravel_tree.h>
#include <lockstep/reductions.h>

namespace lockstep::detail {
namespace {

/// Leaves as real floats.
Tree real_floats(const Tree& tree) {
  return map(
      [](const Array& x) {
        if (!is_inexact(x.dtype())) return convert(x, float32);
        if (is_float(x.dtype())) return x;
        throw DtypeError(
            fmt::format("projections: a leaf is {}; they take real numbers: project real and imaginary "
                        "part as leaves of their own",
                        to_string(x.type())));
      },
      tree);
}

Array scalar_of(const Operand& scale, DType dtype) {
  const Array value = scale.is_scalar() ? full({}, scale.real(), dtype) : convert(scale.array(), dtype);
  if (value.ndim() == 0) return value;
  throw ShapeError(
      fmt::format("projections: the scale or offset is {}; give a number or a scalar", to_string(value.type())));
}

/// Of 16-bit numbers a sum soon has too few digits, a square no finite value.
DType computed_in(DType dtype) { return dtype == float64 ? float64 : float32; }

/// Onto the simplex: what is above a threshold that leaves the sum `scale`, which sorting finds. The set asks for nothing
/// but differences, so the largest element is 0: next to one of 1e9, `scale` would be lost.
Array on_simplex(const Array& given, const Array& scale) {
  const Array x = given - stop_gradient(max(given));
  const Array descending = sort(x, -1, true);
  const Array places = detail::arange(std::int64_t{1}, x.size() + 1, std::int64_t{1}, x.dtype());
  const Array excess = (cumsum(descending) - scale) / places;
  const Array count = maximum(sum(convert(descending > excess, int32)), 1);
  return relu(x - take_rows(excess, count - 1));
}

/// A power of two that brings squares of x into the range of its dtype, 1 where they are.
Array range_factor(const Array& x) {
  const bool wide = x.dtype() == float64;
  const double large = wide ? 0x1p-600 : 0x1p-80, small = wide ? 0x1p600 : 0x1p80, least = wide ? 0x1p-600 : 0x1p-80;
  const Array squares = stop_gradient(sum(square(x)));
  const Array factor =
      where(squares == std::numeric_limits<double>::infinity(), large, where(squares < least, small, 1));
  return convert(factor, x.dtype());
}

/// Onto the ball of the norm, or its sphere.
Array on_l2(const Array& given, const Array& given_scale, bool sphere) {
  const Array factor = range_factor(given), x = given * factor, scale = given_scale * factor;
  const Array squares = sum(square(x));
  if (sphere) return x * (given_scale / sqrt(squares));
  const Array is_outside = squares > square(scale);
  return where(is_outside, x * (given_scale / sqrt(where(is_outside, squares, 1))), given);
}

Array on_ball(Ball set, const Array& x, const Array& scale) {
  const auto on_l1_sphere = [&] { return sign(x) * on_simplex(abs(x), scale); };
  switch (set) {
    case Ball::simplex:
      return on_simplex(x, scale);
    case Ball::l1_sphere:
      return on_l1_sphere();
    case Ball::l1:
      return where(sum(abs(x)) <= scale, x, on_l1_sphere());
    case Ball::linf:
      return minimum(maximum(x, -scale), scale);
    case Ball::l2:
    case Ball::l2_sphere:
      break;
  }
  return on_l2(x, scale, set == Ball::l2_sphere);
}

}  // namespace

Tree project(Ball set, const Tree& tree, const Operand& scale) {
  const auto [x, unravel] = ravel_tree(real_floats(tree));
  if (x.size() == 0) return tree;
  const DType dtype = computed_in(x.dtype());
  return unravel(convert(on_ball(set, convert(x, dtype), scalar_of(scale, dtype)), x.dtype()));
}

Tree project_box(const Tree& tree, const Tree& lower, const Tree& upper) {
  const Tree x = real_floats(tree);
  // A bound may be one number for a leaf; the leaf keeps its shape.
  const auto bound = [](const Array& given, const Array& a) {
    return broadcast_to(convert(given, a.dtype()), a.shape());
  };
  const Tree raised = map([&](const Array& a, const Array& low) { return maximum(a, bound(low, a)); }, x, lower);
  return map([&](const Array& a, const Array& high) { return minimum(a, bound(high, a)); }, raised, upper);
}

Tree project_plane(Plane set, const Tree& tree, const Tree& normal, const Operand& offset) {
  const auto [given, unravel] = ravel_tree(real_floats(tree));
  const DType dtype = computed_in(given.dtype());
  const Array x = convert(given, dtype), a = convert(ravel_tree(real_floats(normal)).first, dtype);
  if (a.size() != x.size()) {
    throw ShapeError(fmt::format("projections: the vector has {} elements, the tree {}; give trees of one structure",
                                 a.size(), x.size()));
  }
  const Array along = sum(a * x), size = sum(square(a));
  if (set == Plane::vector) return unravel(convert(a * (along / size), given.dtype()));
  Array beyond = along - scalar_of(offset, dtype);
  if (set == Plane::halfspace) beyond = maximum(beyond, 0);
  return unravel(convert(x - a * (beyond / size), given.dtype()));
}

}  // namespace lockstep::detail
