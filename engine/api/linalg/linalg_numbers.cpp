#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/transforms.h>

#include "engine/api/linalg/matrices.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"

namespace lockstep::linalg {

namespace {

/// sum^(1/p). Of the zero vector, where the norm has no derivative, that is taken as 0.
Array root(const Array& sum, double p) {
  const Array none = equal(sum, 0);
  const Array some = where(none, 1, sum);
  return where(none, p > 0 ? 0 : api::infinity, p == 2 ? sqrt(some) : pow(some, 1 / p));
}

/// Of the squares themselves: a magnitude's second derivative at 0, and with it that of its square, would be lost.
Array euclidean_norm(const Array& x, const Axes& axes, bool keep) {
  const Array magnitudes = abs(x);
  const Array wide = is_complex(x.dtype()) ? x : convert(x, api::widened(x.dtype()));
  const Array scale = api::binade(convert(magnitudes, api::widened(magnitudes.dtype())), axes);
  const Array total = root(sum(api::squared_magnitudes(wide / scale), axes, true), 2);
  const Array result = convert(total * scale, magnitudes.dtype());
  return keep ? result : squeeze(result, axes);
}

/// Throws ShapeError for an order below 0 of no elements: it would be a least one of them.
void expect_positive_order(double p, const Array& x) {
  if (p >= 0) return;
  throw ShapeError(
      fmt::format("linalg.norm: {} has no elements along the axes, of which order {} would take the least; "
                  "expected at least one",
                  to_string(x.type()), p));
}

Array vector_norm(const Array& x, double p, const Axes& axes, bool keep) {
  if (p == 2) return euclidean_norm(x, axes, keep);
  const Array magnitudes = abs(x);
  if (api::count_along(x, axes) == 0) {
    expect_positive_order(p, x);
    return sum(magnitudes, axes, keep);
  }
  if (p == api::infinity) return max(magnitudes, axes, keep);
  if (p == -api::infinity) return min(magnitudes, axes, keep);
  if (p == 0) return sum(convert(not_equal(magnitudes, 0), magnitudes.dtype()), axes, keep);
  if (p == 1) return sum(magnitudes, axes, keep);
  const Array wide = convert(magnitudes, api::widened(magnitudes.dtype()));
  const Array scale = api::binade(p > 0 ? wide : 1 / wide, axes);
  const Array parts = p > 0 ? wide / scale : wide * scale;
  const Array total = root(sum(pow(parts, p), axes, true), p);
  const Array result = convert(p > 0 ? total * scale : total / scale, magnitudes.dtype());
  return keep ? result : squeeze(result, axes);
}

/// The norm by singular values; `keep` leaves both axes with extent 1.
Array spectral_norm(const Array& x, const NormOrder& order, const Axes& axes, bool keep) {
  if (api::count_along(x, axes) == 0) {
    expect_positive_order(order.number().value_or(0), x);
    return sum(abs(x), axes, keep);
  }
  const Array s = svdvals(moveaxis(moveaxis(x, axes[0], -1), axes[1] > axes[0] ? axes[1] - 1 : axes[1], -1));
  const Array result = order.name() == "nuc"  ? sum(s, Axes{-1})
                       : *order.number() == 2 ? api::largest(s, {s.ndim() - 1}, false)
                                              : api::smallest(s, {s.ndim() - 1}, false);
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
    return vector_norm(x, 2, axes, keep);
  }
  const double p = order.number().value_or(0);
  if (order.name() == "nuc" || std::abs(p) == 2) return spectral_norm(x, order, axes, keep);
  if (!order.name().empty() || (std::abs(p) != 1 && std::abs(p) != api::infinity)) {
    order_error(order, "matrices", "\"fro\", \"nuc\", 1, 2, infinity or the negative of one");
  }
  // Sums of columns run along the rows' axis.
  const bool columns = std::abs(p) == 1;
  if (x.dim(static_cast<int>(columns ? axes[1] : axes[0])) == 0) {
    expect_positive_order(p, x);
    return sum(abs(x), axes, keep);
  }
  const Array sums = sum(abs(x), Axes{columns ? axes[0] : axes[1]}, true);
  const Array result = p > 0 ? max(sums, axes, true) : min(sums, axes, true);
  return keep ? result : squeeze(result, axes);
}

}  // namespace

Array norm(const ArrayOperand& x, const NormOptions& options) {
  const Array numbers = convert(x, api::inexact(x.dtype()));
  Axes axes;
  if (options.axes) {
    for (const std::int64_t axis : *options.axes) axes.push_back(normalize_axis(axis, x.ndim(), "linalg.norm"));
  } else {
    for (int i = 0; i < x.ndim(); ++i) axes.push_back(i);
    const bool of_all = !options.order.number() && options.order.name().empty();
    if (of_all) return vector_norm(numbers, 2, axes, options.keep);
  }
  if (axes.size() == 1) {
    if (!options.order.name().empty()) order_error(options.order, "vectors", "a number");
    return vector_norm(numbers, options.order.number().value_or(2), axes, options.keep);
  }
  if (axes.size() != 2 || axes[0] == axes[1]) {
    throw ShapeError(
        fmt::format("linalg.norm: an order needs one axis or two different ones, got [{}] of {}; name "
                    "them in axes",
                    fmt::join(axes, ","), to_string(x.type())));
  }
  return matrix_norm(numbers, options.order, axes, options.keep);
}

NormOrder::NormOrder() = default;
NormOrder::NormOrder(const NormOrder& other) = default;
NormOrder::NormOrder(NormOrder&& other) noexcept = default;
NormOrder& NormOrder::operator=(const NormOrder& other) = default;
NormOrder& NormOrder::operator=(NormOrder&& other) noexcept = default;
NormOrder::~NormOrder() = default;
NormOrder::NormOrder(const char* name) : name_(name) {}
NormOrder::NormOrder(double number, Number /*tag*/) : number_(number) {}

Array cond(const ArrayOperand& a, const NormOrder& order) {
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

Array matrix_rank(const ArrayOperand& a, std::optional<double> rtol) {
  const Array matrix = api::matrices("linalg.matrix_rank", a);
  const double extent = static_cast<double>(std::max(a.dim(-1), a.dim(-2)));
  const Array s = svdvals(matrix);
  const Array bound = api::largest(s, {s.ndim() - 1}, true) * rtol.value_or(extent * api::epsilon(matrix.dtype()));
  return sum(greater(s, bound), Axes{-1});
}

Array trace(const ArrayOperand& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  return sum(diagonal(x, offset, axis1, axis2), Axes{-1});
}

}  // namespace lockstep::linalg
