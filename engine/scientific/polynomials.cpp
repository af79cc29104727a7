#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/convolution.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/scientific/polynomials.h>

#include "engine/api/linalg/matrices.h"
#include "engine/api/numpy/operands.h"

namespace lockstep {

namespace {

void expect_coefficients(std::string_view op, const Array& p) {
  if (p.ndim() == 1) return;
  throw ShapeError(fmt::format("{}: {} given; expected a vector of coefficients, or vmap", op, to_string(p.shape())));
}

void expect_count(std::string_view op, std::string_view what, std::int64_t count) {
  if (count >= 0) return;
  throw ValueError(fmt::format("{}: {} is {}; expected 0 or more", op, what, count));
}

/// Zeros before the coefficients.
Array lengthened(const Array& p, std::int64_t size) { return pad(p, 0, {size - p.size()}, {0}); }

/// n, n - 1, ..., 1 as numbers of p's kind.
Array powers(const Array& p, std::int64_t n) {
  return convert(n - arange(n), is_inexact(p.dtype()) ? p.dtype() : DType::int32);
}

}  // namespace

Array polyadd(const ArrayOperand& a, const ArrayOperand& b) {
  expect_coefficients("polyadd", a);
  expect_coefficients("polyadd", b);
  const std::int64_t size = std::max(a.size(), b.size());
  return lengthened(a, size) + lengthened(b, size);
}

Array polysub(const ArrayOperand& a, const ArrayOperand& b) {
  expect_coefficients("polysub", a);
  expect_coefficients("polysub", b);
  const std::int64_t size = std::max(a.size(), b.size());
  return lengthened(a, size) - lengthened(b, size);
}

Array polymul(const ArrayOperand& a, const ArrayOperand& b) {
  expect_coefficients("polymul", a);
  expect_coefficients("polymul", b);
  const DType dtype = api::common_dtype({a, b});
  if (!is_complex(dtype)) return convolve(a, b);
  // No library convolves complex numbers.
  const Array re_a = real(a), im_a = imag(a), re_b = real(b), im_b = imag(b);
  return convert(complex(convolve(re_a, re_b) - convolve(im_a, im_b), convolve(re_a, im_b) + convolve(im_a, re_b)),
                 dtype);
}

Array polyder(const ArrayOperand& p, std::int64_t order) {
  expect_coefficients("polyder", p);
  expect_count("polyder", "the order", order);
  Array result = p;
  for (std::int64_t i = 0; i < order; ++i) {
    if (result.size() < 2) return zeros({std::min<std::int64_t>(result.size(), 1)}, result.dtype());
    const std::int64_t n = result.size() - 1;
    result = slice_in_dim(result, 0, n, 0) * powers(result, n);
  }
  return result;
}

Array polyint(const ArrayOperand& p, std::int64_t order) {
  expect_coefficients("polyint", p);
  expect_count("polyint", "the order", order);
  Array result = convert(p, api::inexact(p.dtype()));
  for (std::int64_t i = 0; i < order; ++i) {
    result = pad(result / powers(result, result.size()), 0, {0}, {1});
  }
  return result;
}

Array polyfit(const ArrayOperand& x, const ArrayOperand& y, std::int64_t degree, const std::optional<Array>& weights) {
  expect_coefficients("polyfit", x);
  expect_count("polyfit", "the degree", degree);
  const bool fits = (y.ndim() == 1 || y.ndim() == 2) && y.dim(0) == x.size() && x.size() > 0 &&
                    (!weights || weights->shape() == x.shape());
  if (!fits) {
    throw ShapeError(fmt::format("polyfit: x is {}, y is {}{}; expected [n], [n] or [n, k], and weights [n]",
                                 to_string(x.shape()), to_string(y.shape()),
                                 weights ? ", weights are " + to_string(weights->shape()) : ""));
  }
  const DType dtype = api::inexact(api::common_dtype({x, y}));
  Array left = linalg::vander(convert(x, dtype), degree + 1), right = convert(y, dtype);
  if (weights) {
    const Array column = expand_dims(convert(*weights, dtype), 1);
    left = left * column;
    right = y.ndim() == 1 ? right * convert(*weights, dtype) : right * column;
  }
  // Columns of one length, so that no power decides alone which singular values count.
  const Array scale = sqrt(sum(square(abs(left)), 0));
  const Array unit = where(scale == 0, 1, scale);
  const double rcond = static_cast<double>(x.size()) * api::epsilon(dtype);
  const Array found = linalg::lstsq(left / unit, right, rcond).x;
  return found / (y.ndim() == 1 ? unit : expand_dims(unit, 1));
}

Array roots(const ArrayOperand& p) {
  expect_coefficients("roots", p);
  const Array coefficients = convert(p, api::inexact(p.dtype()));
  const std::int64_t n = p.size() - 1;
  if (n < 1) return zeros({0}, promote(coefficients.dtype(), complex64));
  const Array top = -slice_in_dim(coefficients, 1, n + 1, 0) / coefficients[0];
  const Array below = slice(eye(n, coefficients.dtype()), {0, 0}, {n - 1, n});
  return linalg::eigvals(concatenate({expand_dims(top, 0), below}, 0));
}

Array poly(const ArrayOperand& roots) {
  expect_coefficients("poly", roots);
  const Array zeros_of_it = convert(roots, api::inexact(roots.dtype()));
  Array result = ones({1}, zeros_of_it.dtype());
  for (std::int64_t i = 0; i < roots.size(); ++i) {
    result = pad(result, 0, {0}, {1}) - pad(result * zeros_of_it[i], 0, {1}, {0});
  }
  return result;
}

}  // namespace lockstep
