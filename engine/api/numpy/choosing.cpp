#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/core/lists.h"

namespace lockstep {

Array select(std::span<const Array> conditions, std::span<const Array> choices, const Operand& fallback) {
  if (conditions.size() != choices.size() || conditions.empty()) {
    throw ValueError(fmt::format("select: {} conditions for {} choices; give one choice per condition",
                                 conditions.size(), choices.size()));
  }
  Operand result = fallback;
  for (std::size_t i = conditions.size(); i-- > 0;) result = where(conditions[i], choices[i], result);
  return result.array();
}

Array choose(const ArrayOperand& which, std::span<const Array> choices, bool wrap) {
  if (choices.empty()) throw ValueError("choose: no choices given; it needs at least one");
  api::expect_integers("choose", which, "the numbers of the choices");
  const auto count = static_cast<std::int64_t>(choices.size());
  const Array number = convert(which, int64);
  const Array remainder = rem(number, count);
  const Array chosen = wrap ? where(less(remainder, 0), remainder + count, remainder) : clip(number, 0, count - 1);
  Array result = choices[0];
  for (std::int64_t i = 1; i < count; ++i) result = where(equal(chosen, i), nth(choices, i), result);
  return broadcast_to(result, broadcast_shapes(result.shape(), which.shape(), "choose"));
}

Array piecewise(const ArrayOperand& x, std::span<const Array> conditions, std::span<const Branch> functions) {
  if (functions.size() != conditions.size() && functions.size() != conditions.size() + 1) {
    throw ValueError(
        fmt::format("piecewise: {} functions for {} conditions; give one per condition, and one more for "
                    "where none holds",
                    functions.size(), conditions.size()));
  }
  Array result = zeros_like(x);
  if (functions.size() > conditions.size()) result = convert(functions.back()(x), x.dtype());
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    result = where(conditions[i], convert(functions[i](x), x.dtype()), result);
  }
  return broadcast_to(result, x.shape());
}

Array interp(const ArrayOperand& x, const ArrayOperand& xp, const ArrayOperand& fp, const std::optional<double>& left,
             const std::optional<double>& right) {
  if (xp.ndim() != 1 || !(fp.shape() == xp.shape()) || xp.size() == 0) {
    throw ShapeError(fmt::format("interp: xp and fp must be vectors of one length, 1 or more, got {} and {}",
                                 to_string(xp.shape()), to_string(fp.shape())));
  }
  const Operand a = x, b = xp, c = fp;
  const DType dtype = api::inexact(api::common_dtype({&a, &b, &c}));
  const DType wide = api::widened(dtype);
  const Array at = convert(x, wide), places = convert(xp, wide), values = convert(fp, wide);
  const std::int64_t last = xp.size() - 1;
  // The number of samples at or below x: the interval it lies in begins at the one before.
  const Array below = sum(convert(greater_equal(expand_dims(at, -1), places), int32), Axes{-1});
  const Array first = clip(below - 1, 0, std::max<std::int64_t>(last - 1, 0));
  const Array second = minimum(first + 1, last);
  const auto element = [](const Array& x, const Array& i) { return take(x, i, 0, IndexMode::promise_in_bounds); };
  const Array x0 = element(places, first), f0 = element(values, first);
  const Array width = element(places, second) - x0, rise = element(values, second) - f0;
  const Array flat = equal(width, 0);
  const Array inside = where(flat, f0, f0 + (at - x0) / where(flat, 1, width) * rise);
  const auto end = [&](const std::optional<double>& given, std::int64_t i) -> Operand {
    if (given) return *given;
    return index(values, {i});
  };
  const Array high = where(greater(at, index(places, {last})), end(right, last), inside);
  return convert(where(less(at, index(places, {0})), end(left, 0), high), dtype);
}

namespace {

/// The integral of y with the distances of its samples, as `dtype`.
Array trapezoids(const Array& y, const Operand& distances, int dim, DType dtype) {
  const std::int64_t extent = y.shape()[dim];
  const Array value = convert(y, api::widened(dtype));
  const Array left = slice_in_dim(value, 0, std::max<std::int64_t>(extent - 1, 0), dim);
  const Array right = slice_in_dim(value, std::min<std::int64_t>(extent, 1), extent, dim);
  return convert(sum((left + right) * distances, Axes{dim}) * 0.5, dtype);
}

}  // namespace

Array trapezoid(const ArrayOperand& y, double dx, std::int64_t axis) {
  return trapezoids(y, dx, normalize_axis(axis, y.ndim(), "trapezoid"), api::inexact(y.dtype()));
}

Array trapezoid(const ArrayOperand& y, const ArrayOperand& x, std::int64_t axis) {
  const int dim = normalize_axis(axis, y.ndim(), "trapezoid");
  const int along = x.ndim() == 1 ? 0 : dim;
  if (x.ndim() != 1 && x.ndim() != y.ndim()) {
    throw ShapeError(fmt::format("trapezoid: x must be a vector or have the rank of y, got {} for {}",
                                 to_string(x.shape()), to_string(y.shape())));
  }
  const std::int64_t extent = x.shape()[along];
  const DType dtype = api::inexact(api::common_dtype({y, x}));
  const Array places = convert(x, api::widened(dtype));  // integers have no distances below 0, or wrap
  Array distances = slice_in_dim(places, std::min<std::int64_t>(extent, 1), extent, along) -
                    slice_in_dim(places, 0, std::max<std::int64_t>(extent - 1, 0), along);
  if (x.ndim() == 1) {
    Axes column = repeated(y.ndim(), 1);
    nth(column, dim) = distances.size();
    distances = reshape(distances, column);
  }
  return trapezoids(y, distances, dim, dtype);
}

Array select(std::initializer_list<Array> conditions, std::initializer_list<Array> choices, const Operand& fallback) {
  return select(std::span(conditions.begin(), conditions.size()), std::span(choices.begin(), choices.size()), fallback);
}

Array choose(const Array& which, std::initializer_list<Array> choices, bool wrap) {
  return choose(which, std::span(choices.begin(), choices.size()), wrap);
}

Array piecewise(const Array& x, std::initializer_list<Array> conditions, std::initializer_list<Branch> functions) {
  return piecewise(x, std::span(conditions.begin(), conditions.size()), std::span(functions.begin(), functions.size()));
}

}  // namespace lockstep
