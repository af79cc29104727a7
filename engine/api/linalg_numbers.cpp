#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/transforms.h>

#include "engine/api/matrices.h"
#include "engine/api/operands.h"

namespace lockstep::linalg {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Element (i, j) of matrices.
Array element(const Array& a, std::int64_t i, std::int64_t j) {
  return squeeze(slice_in_dim(slice_in_dim(a, i, i + 1, -2), j, j + 1, -1), {-2, -1});
}

/// 1 or -1 for an even or odd number of exchanges.
Array exchange_sign(const LuFactor& factors) {
  const Array moved = not_equal(factors.pivots, iota(factors.pivots.shape(), -1));
  const Array odd = rem(sum(moved, Axes{-1}), 2);
  return convert(1 - 2 * odd, factors.lu.dtype());
}

Array minor_2(const Array& a, std::int64_t first, std::int64_t second) {
  return element(a, 1, first) * element(a, 2, second) - element(a, 1, second) * element(a, 2, first);
}

Array vector_norm(const Array& magnitudes, double p, const Axes& axes, bool keep) {
  if (p == infinity) return max(magnitudes, axes, keep);
  if (p == -infinity) return min(magnitudes, axes, keep);
  if (p == 0) return sum(convert(not_equal(magnitudes, 0), magnitudes.dtype()), axes, keep);
  if (p == 1) return sum(magnitudes, axes, keep);
  if (p == 2) return sqrt(sum(square(magnitudes), axes, keep));
  return pow(sum(pow(magnitudes, p), axes, keep), 1 / p);
}

/// The norm by singular values; `keep` leaves both axes with extent 1.
Array spectral_norm(const Array& x, const NormOrder& order, const Axes& axes, bool keep) {
  const Array s = svdvals(moveaxis(moveaxis(x, axes[0], -1), axes[1] > axes[0] ? axes[1] - 1 : axes[1], -1));
  const Array result = order.name() == "nuc"  ? sum(s, Axes{-1})
                       : *order.number() == 2 ? max(s, Axes{-1})
                                              : min(s, Axes{-1});
  if (!keep) return result;
  return expand_dims(expand_dims(result, std::min(axes[0], axes[1])), std::max(axes[0], axes[1]));
}

[[noreturn]] void order_error(const NormOrder& order, std::string_view of, std::string_view expected) {
  throw ValueError(fmt::format("linalg.norm: no norm of {} of order {}; expected {}", of,
                               order.number() ? fmt::format("{}", *order.number()) : '"' + order.name() + '"',
                               expected));
}

Array matrix_norm(const Array& x, const NormOrder& order, const Axes& axes, bool keep) {
  if (!order.number() && (order.name().empty() || order.name() == "fro")) {
    return sqrt(sum(square(abs(x)), axes, keep));
  }
  const double p = order.number().value_or(0);
  if (order.name() == "nuc" || std::abs(p) == 2) return spectral_norm(x, order, axes, keep);
  if (!order.name().empty() || (std::abs(p) != 1 && std::abs(p) != infinity)) {
    order_error(order, "matrices", "\"fro\", \"nuc\", 1, 2, infinity or the negative of one");
  }
  // Sums of columns run along the rows' axis.
  const bool columns = std::abs(p) == 1;
  const Array sums = sum(abs(x), Axes{columns ? axes[0] : axes[1]}, true);
  const Array result = p > 0 ? max(sums, axes, true) : min(sums, axes, true);
  return keep ? result : squeeze(result, axes);
}

}  // namespace

Array norm(const Array& x, const NormOptions& options) {
  const Array numbers = convert(x, api::inexact(x.dtype()));
  Axes axes;
  if (options.axes) {
    for (const std::int64_t axis : *options.axes) axes.push_back(normalize_axis(axis, x.ndim(), "linalg.norm"));
  } else {
    for (int i = 0; i < x.ndim(); ++i) axes.push_back(i);
    const bool of_all = !options.order.number() && options.order.name().empty();
    if (of_all) return vector_norm(abs(numbers), 2, axes, options.keep);
  }
  if (axes.size() == 1) {
    if (!options.order.name().empty()) order_error(options.order, "vectors", "a number");
    return vector_norm(abs(numbers), options.order.number().value_or(2), axes, options.keep);
  }
  if (axes.size() != 2 || axes[0] == axes[1]) {
    throw ShapeError(
        fmt::format("linalg.norm: an order needs one axis or two different ones, got [{}] of {}; name "
                    "them in axes",
                    fmt::join(axes, ","), to_string(x.type())));
  }
  return matrix_norm(numbers, options.order, axes, options.keep);
}

Array det(const Array& a) {
  const Array matrix = api::square_matrices("linalg.det", a);
  // By cofactors, whose derivative is that of singular matrices too.
  if (a.dim(-1) == 2) {
    return element(matrix, 0, 0) * element(matrix, 1, 1) - element(matrix, 0, 1) * element(matrix, 1, 0);
  }
  if (a.dim(-1) == 3) {
    return element(matrix, 0, 0) * minor_2(matrix, 1, 2) - element(matrix, 0, 1) * minor_2(matrix, 0, 2) +
           element(matrix, 0, 2) * minor_2(matrix, 0, 1);
  }
  const LuFactor factors = lu_factor(matrix);
  return exchange_sign(factors) * prod(diagonal(factors.lu, 0, -2, -1), Axes{-1});
}

Slogdet slogdet(const Array& a) {
  const LuFactor factors = lu_factor(api::square_matrices("linalg.slogdet", a));
  const Array pivots = diagonal(factors.lu, 0, -2, -1);
  return {exchange_sign(factors) * prod(sign(pivots), Axes{-1}), sum(log(abs(pivots)), Axes{-1})};
}

Array cond(const Array& a, const NormOrder& order) {
  const Array matrix = api::matrices("linalg.cond", a);
  const bool spectral = order.number() ? std::abs(*order.number()) == 2 : order.name().empty();
  if (!spectral) {
    const NormOptions options{.order = order, .axes = Axes{-2, -1}};
    return norm(matrix, options) * norm(inv(api::square_matrices("linalg.cond", matrix)), options);
  }
  const Array s = svdvals(matrix);
  if (s.dim(-1) == 0) {
    throw ShapeError(
        fmt::format("linalg.cond: {} has no singular values; pass matrices with elements", to_string(a.type())));
  }
  const Array largest = max(s, Axes{-1});
  const Array smallest = min(s, Axes{-1});
  return order.number() && *order.number() < 0 ? smallest / largest : largest / smallest;
}

Array matrix_rank(const Array& a, std::optional<double> rtol) {
  const Array matrix = api::matrices("linalg.matrix_rank", a);
  const double extent = static_cast<double>(std::max(a.dim(-1), a.dim(-2)));
  const Array s = svdvals(matrix);
  const Array bound = max(s, Axes{-1}, true) * rtol.value_or(extent * api::epsilon(matrix.dtype()));
  return sum(greater(s, bound), Axes{-1});
}

Array trace(const Array& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  return sum(diagonal(x, offset, axis1, axis2), Axes{-1});
}

}  // namespace lockstep::linalg
