#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>

#include "engine/api/numpy/operands.h"

namespace lockstep::linalg {

namespace {

using Row = std::tuple<Array, Array, Array, Array>;
using Reduced = std::pair<Array, Array>;

/// Rows along the first dimension: diagonals [m, ..., 1], b [m, ..., n].
Array solved_rows(const Row& rows) {
  const Array& b = std::get<3>(rows);
  const Array none = zeros_like(std::get<0>(rows)[0]), start = zeros_like(b[0]);
  const auto forth = [](const Reduced& above, const Row& row) {
    const auto& [l, d, u, right] = row;
    const Array pivot = d - l * above.first;
    const Reduced reduced(u / pivot, (right - l * above.second) / pivot);
    return std::pair(reduced, reduced);
  };
  const auto back = [](const Array& below, const Reduced& row) {
    const Array x = row.second - row.first * below;
    return std::pair(x, x);
  };
  const Reduced reduced = scan(forth, Reduced(none, start), rows).second;
  return scan(back, start, reduced, {.reverse = true}).second;
}

}  // namespace

Array tridiagonal_solve(const ArrayOperand& lower, const ArrayOperand& diagonal, const ArrayOperand& upper,
                        const ArrayOperand& b) {
  const bool vector = b.ndim() == 1;
  const std::int64_t m = diagonal.ndim() == 0 ? -1 : diagonal.dim(-1);
  const bool fits = lower.shape() == diagonal.shape() && upper.shape() == diagonal.shape() && m >= 0 && b.ndim() > 0 &&
                    b.dim(vector ? -1 : -2) == m;
  if (!fits) {
    throw ShapeError(fmt::format(
        "linalg.tridiagonal_solve: diagonals are {}, {} and {}, b is {}; expected [..., m] "
        "each and [..., m, n] or [m]",
        to_string(lower.shape()), to_string(diagonal.shape()), to_string(upper.shape()), to_string(b.shape())));
  }
  const DType dtype = api::inexact(api::common_dtype({lower, diagonal, upper, b}));
  const Array right = convert(vector ? expand_dims(b, -1) : Array(b), dtype);
  const Shape batch =
      broadcast_shapes(diagonal.shape().erase(diagonal.ndim() - 1),
                       right.shape().erase(right.ndim() - 1).erase(right.ndim() - 2), "linalg.tridiagonal_solve");
  if (m == 0) {
    Shape shape = batch;
    shape.append(0);
    if (!vector) shape.append(right.dim(-1));
    return zeros(shape, dtype);
  }
  const auto along_rows = [&](const Array& x, std::int64_t columns) {
    Shape shape = batch;
    shape.append(m);
    shape.append(columns);
    return moveaxis(broadcast_to(x, shape), -2, 0);
  };
  const auto diagonal_rows = [&](const Array& x) { return along_rows(expand_dims(convert(x, dtype), -1), 1); };
  // What is not read may be anything, NaN too.
  const Array place = arange(m);
  const Array below = where(place == 0, zeros_like(lower), lower),
              above = where(place == m - 1, zeros_like(upper), upper);
  const Array x = solved_rows(
      {diagonal_rows(below), diagonal_rows(diagonal), diagonal_rows(above), along_rows(right, right.dim(-1))});
  const Array result = moveaxis(x, 0, -2);
  return vector ? squeeze(result, -1) : result;
}

}  // namespace lockstep::linalg
