#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>

#include "engine/api/linalg/matrices.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep::linalg {

namespace {

Array ravelled(const Array& x) { return reshape(x, {x.size()}); }

/// A square block of the last two dimensions from (row, column) on.
Array square_block(const Array& x, std::int64_t row, std::int64_t column, std::int64_t extent) {
  return slice_in_dim(slice_in_dim(x, row, row + extent, -2), column, column + extent, -1);
}

/// The order in which a chain of matrices multiplies least: where to cut the part [i, j].
class ChainOrder {
 public:
  explicit ChainOrder(const std::vector<Array>& chain) : n_(chain.size()), cost_(n_ * n_), cut_(n_ * n_) {
    for (std::size_t length = 2; length <= n_; ++length) {
      for (std::size_t i = 0; i + length <= n_; ++i) choose(chain, i, i + length - 1);
    }
  }
  Array product(const std::vector<Array>& chain, std::size_t i, std::size_t j) const {
    if (i == j) return chain[i];
    const std::size_t cut = cut_[i * n_ + j];
    return matmul(product(chain, i, cut), product(chain, cut + 1, j));
  }

 private:
  void choose(const std::vector<Array>& chain, std::size_t i, std::size_t j) {
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t cut = i; cut < j; ++cut) {
      const double cost = cost_[i * n_ + cut] + cost_[(cut + 1) * n_ + j] +
                          static_cast<double>(chain[i].dim(0)) * static_cast<double>(chain[cut].dim(1)) *
                              static_cast<double>(chain[j].dim(1));
      if (cost >= best) continue;
      best = cost;
      cut_[i * n_ + j] = cut;
    }
    cost_[i * n_ + j] = best;
  }

  std::size_t n_;
  std::vector<double> cost_;
  std::vector<std::size_t> cut_;
};

/// Coefficients of the Pade approximant of exp of a degree: c(0) = 1, c(k) = c(k - 1) (d - k + 1) / (k (2 d - k + 1)).
std::vector<double> pade_coefficients(int degree) {
  std::vector<double> c = {1};
  for (int k = 1; k <= degree; ++k) c.push_back(c.back() * (degree - k + 1) / (k * (2.0 * degree - k + 1)));
  return c;
}

/// exp(a) of matrices of a small norm: (v - u)^-1 (v + u), u and v the odd and the even part of the numerator.
Array pade(const Array& a, int degree) {
  const std::vector<double> c = pade_coefficients(degree);
  const Array square_of_a = matmul(a, a);
  Array power = api::identity_of(a);
  Array odd = power * c[1];
  Array even = power * c[0];
  for (int k = 2; k < degree; k += 2) {
    power = matmul(power, square_of_a);
    even = even + power * nth(c, k);
    odd = odd + power * c[static_cast<std::size_t>(k) + 1];
  }
  const Array u = matmul(a, odd);
  return solve(even - u, even + u);
}

}  // namespace

Array matrix_power(const ArrayOperand& a, std::int64_t power) {
  const Array floats = api::square_matrices("linalg.matrix_power", a);
  const Array matrix = power >= 0 && is_integer(a.dtype()) ? a : floats;
  if (power == 0) return api::identity_of(matrix);
  Array factor = power < 0 ? inv(matrix) : matrix;
  std::optional<Array> result;
  for (std::uint64_t rest = power < 0 ? -static_cast<std::uint64_t>(power) : static_cast<std::uint64_t>(power);
       rest > 0; rest >>= 1U) {
    if ((rest & 1U) != 0) result = result ? matmul(*result, factor) : factor;
    if (rest > 1) factor = matmul(factor, factor);
  }
  return *result;
}

Array expm(const ArrayOperand& a) {
  constexpr int most_squarings = 16;
  const Array matrix = api::square_matrices("linalg.expm", a);
  const bool wide = matrix.dtype() == DType::float64 || matrix.dtype() == DType::complex128;
  // Up to this norm the approximant is exact to rounding.
  const double theta = wide ? 5.371920351148152 : 3.925724783138660;
  const Array size = stop_gradient(norm(matrix, {.order = 1, .axes = Axes{-2, -1}, .keep = true}));
  const Array squarings = maximum(ceil(log2(size / theta)), 0.0);
  Array result = pade(matrix / convert(pow(full_like(size, 2.0), squarings), matrix.dtype()), wide ? 13 : 7);
  for (int i = 0; i < most_squarings; ++i) result = where(greater(squarings, i), matmul(result, result), result);
  return where(less_equal(squarings, most_squarings), result, std::numeric_limits<double>::quiet_NaN());
}

Array multi_dot(const ArrayOperands& arrays) {
  if (arrays.size() < 2) {
    throw ValueError(fmt::format("linalg.multi_dot: needs two arrays or more, got {}", arrays.size()));
  }
  std::vector<Array> chain(arrays.begin(), arrays.end());
  const bool row = chain.front().ndim() == 1;
  const bool column = chain.back().ndim() == 1;
  if (row) chain.front() = expand_dims(chain.front(), 0);
  if (column) chain.back() = expand_dims(chain.back(), 1);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    api::expect_rank("linalg.multi_dot", chain[i], 2);
    if (i == 0 || chain[i - 1].dim(1) == chain[i].dim(0)) continue;
    throw ShapeError(fmt::format("linalg.multi_dot: array {} of {} columns meets array {} of {} rows; transpose one",
                                 i - 1, chain[i - 1].dim(1), i, chain[i].dim(0)));
  }
  const Array product = ChainOrder(chain).product(chain, 0, chain.size() - 1);
  Axes dropped;
  if (row) dropped.push_back(0);
  if (column) dropped.push_back(1);
  return dropped.empty() ? product : squeeze(product, dropped);
}

Array cross(const ArrayOperand& a, const ArrayOperand& b, std::int64_t axis) {
  const auto parts = [axis](const Array& x) {
    const std::int64_t at = normalize_axis(axis, x.ndim(), "linalg.cross");
    const std::int64_t extent = x.dim(static_cast<int>(at));
    if (extent != 2 && extent != 3) {
      throw ShapeError(fmt::format("linalg.cross: needs vectors of 2 or 3 elements along axis {}, got {}", axis,
                                   to_string(x.type())));
    }
    std::vector<Array> result;
    for (std::int64_t i = 0; i < extent; ++i) result.push_back(squeeze(slice_in_dim(x, i, i + 1, at), {at}));
    return result;
  };
  // Products that nearly cancel leave no digits of 16 bits.
  const DType dtype = api::common_dtype({a, b}), wide = is_float(dtype) ? api::widened(dtype) : dtype;
  if (wide != dtype) return convert(cross(convert(a, wide), convert(b, wide), axis), dtype);
  const std::vector<Array> u = parts(a);
  const std::vector<Array> v = parts(b);
  const Array third = u[0] * v[1] - u[1] * v[0];
  if (u.size() == 2 && v.size() == 2) return third;
  const auto at_third = [](const std::vector<Array>& x) { return x.size() == 3 ? x[2] : zeros_like(x[0]); };
  const std::vector<Array> result = {u[1] * at_third(v) - at_third(u) * v[1], at_third(u) * v[0] - u[0] * at_third(v),
                                     third};
  const int rank = result[0].ndim() + 1;
  return stack(result, axis < 0 ? axis + rank : axis);
}

Array outer(const ArrayOperand& a, const ArrayOperand& b) {
  return expand_dims(ravelled(a), 1) * expand_dims(ravelled(b), 0);
}

Array inner(const ArrayOperand& a, const ArrayOperand& b) {
  if (a.ndim() == 0 || b.ndim() == 0) return a * b;
  return tensordot(a, b, {{-1}, {-1}});
}

Array kron(const ArrayOperand& a, const ArrayOperand& b) {
  const int rank = std::max(a.ndim(), b.ndim());
  const auto extents = [rank](const Array& x, bool first) {
    Axes shape;
    Axes spread;
    for (int i = 0; i < rank; ++i) {
      const int at = i - (rank - x.ndim());
      const std::int64_t extent = at < 0 ? 1 : x.shape()[at];
      shape.push_back(extent);
      spread.push_back(first ? extent : 1);
      spread.push_back(first ? 1 : extent);
    }
    return std::pair(shape, spread);
  };
  const auto [a_shape, a_spread] = extents(a, true);
  const auto [b_shape, b_spread] = extents(b, false);
  Axes shape;
  for (std::size_t i = 0; i < a_shape.size(); ++i) shape.push_back(a_shape[i] * b_shape[i]);
  return reshape(reshape(a, a_spread) * reshape(b, b_spread), shape);
}

Array tensordot(const ArrayOperand& a, const ArrayOperand& b, std::int64_t axes) {
  if (axes < 0 || axes > a.ndim() || axes > b.ndim()) {
    throw ShapeError(fmt::format("linalg.tensordot: cannot sum over {} dimensions of {} and {}", axes,
                                 to_string(a.type()), to_string(b.type())));
  }
  Axes first = repeated(axes);
  Axes last(first.size());
  std::iota(first.begin(), first.end(), std::int64_t{0});
  std::iota(last.begin(), last.end(), a.ndim() - axes);
  return dot_general(a, b, {last, first});
}

Array tensordot(const ArrayOperand& a, const ArrayOperand& b, const std::pair<Axes, Axes>& axes) {
  return dot_general(a, b, axes);
}

Array dot(const ArrayOperand& a, const ArrayOperand& b) {
  if (a.ndim() == 0 || b.ndim() == 0) return a * b;
  return tensordot(a, b, {{-1}, {b.ndim() == 1 ? -1 : -2}});
}

Array matvec(const ArrayOperand& matrices, const ArrayOperand& vectors) {
  return squeeze(matmul(matrices, expand_dims(vectors, -1)), {-1});
}

Array vecmat(const ArrayOperand& vectors, const ArrayOperand& matrices) {
  return squeeze(matmul(expand_dims(api::conjugated(vectors), -2), matrices), {-2});
}

Array diagflat(const ArrayOperand& x, std::int64_t offset) { return diag(ravelled(x), offset); }

Array vander(const ArrayOperand& x, const std::optional<std::int64_t>& columns, bool increasing) {
  api::expect_rank("linalg.vander", x, 1);
  const std::int64_t n = columns.value_or(x.size());
  const Array ascending = arange(n);
  const Array exponents = increasing ? ascending : n - 1 - ascending;
  return power(expand_dims(x, 1), is_integer(x.dtype()) ? convert(exponents, x.dtype()) : exponents);
}

Array vdot(const ArrayOperand& a, const ArrayOperand& b) {
  if (a.size() != b.size()) {
    throw ShapeError(
        fmt::format("linalg.vdot: needs arrays of one size, got {} and {}", to_string(a.type()), to_string(b.type())));
  }
  return matmul(api::conjugated(ravelled(a)), ravelled(b));
}

Array diagonal(const ArrayOperand& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  const std::int64_t first = normalize_axis(axis1, x.ndim(), "linalg.diagonal");
  const std::int64_t second = normalize_axis(axis2, x.ndim(), "linalg.diagonal");
  if (first == second) {
    throw ShapeError(
        fmt::format("linalg.diagonal: axes {} and {} of {} are one; name two", axis1, axis2, to_string(x.type())));
  }
  const Array last = moveaxis(moveaxis(x, first, -1), second > first ? second - 1 : second, -1);
  const std::int64_t row = std::min(std::max<std::int64_t>(-offset, 0), last.dim(-2));
  const std::int64_t column = std::min(std::max<std::int64_t>(offset, 0), last.dim(-1));
  const std::int64_t extent = std::min(last.dim(-2) - row, last.dim(-1) - column);
  // Row by row, the diagonal's elements are extent + 1 apart.
  std::vector<std::int64_t> shape = last.shape().to_vector();
  shape.pop_back();
  shape.back() = extent * extent;
  const Array flat = reshape(square_block(last, row, column, extent), shape);
  Axes strides(shape.size(), 1);
  strides.back() = extent + 1;
  return slice(flat, Axes(shape.size(), 0), shape, strides);
}

Array diag(const ArrayOperand& x, std::int64_t offset) {
  if (x.ndim() == 2) return diagonal(x, offset);
  api::expect_rank("linalg.diag", x, 1);
  const std::int64_t n = x.size();
  const std::int64_t around = std::abs(offset);
  const Array zero = zeros({}, x.dtype());
  const Array flat =
      lax::pad(std::vector<Array>{x, zero}, {{"low", Axes{0}}, {"high", Axes{0}}, {"interior", Axes{n}}}).front();
  const Array matrix = reshape(flat, {n, n});
  const std::int64_t below = offset < 0 ? around : 0;
  const std::int64_t above = offset > 0 ? around : 0;
  return pad(matrix, zero, {below, above}, {above, below});
}

namespace {

Array triangle(const char* op, const Array& x, std::int64_t k, bool lower) {
  if (x.ndim() < 2) {
    throw ShapeError(fmt::format("{}: needs matrices, arrays of rank 2 or more, got {}", op, to_string(x.type())));
  }
  const Array row = iota(x.shape(), -2);
  const Array column = iota(x.shape(), -1);
  const auto limit = static_cast<int>(std::clamp<std::int64_t>(k, -x.dim(-2) - 1, x.dim(-1) + 1));
  const Array kept = lower ? less_equal(column, row + limit) : greater_equal(column, row + limit);
  return where(kept, x, zeros_like(x));
}

}  // namespace

Array tril(const ArrayOperand& x, std::int64_t k) { return triangle("linalg.tril", x, k, true); }
Array triu(const ArrayOperand& x, std::int64_t k) { return triangle("linalg.triu", x, k, false); }

}  // namespace lockstep::linalg
