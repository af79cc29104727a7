#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/random/random_draws.h"

// Draws that take linear algebra.
namespace lockstep::random {

namespace {

/// The diagonals of square matrices.
Array diagonal(const Array& matrices) { return sum(mul(matrices, eye(matrices.dim(-1), matrices.dtype())), {{-1}}); }

}  // namespace

Array multivariate_normal(const ArrayOperand& key, const ArrayOperand& mean, const ArrayOperand& covariance,
                          const Shape& shape, DType dtype, const Placement& placement) {
  check_one_key("multivariate_normal", key);
  if (mean.ndim() < 1 || covariance.ndim() < 2 || covariance.dim(-1) != mean.dim(-1) ||
      covariance.dim(-2) != mean.dim(-1)) {
    throw ShapeError(
        fmt::format("random::multivariate_normal: needs a mean [..., n] and a covariance [..., n, n], got {} and {}",
                    to_string(mean.shape()), to_string(covariance.shape())));
  }
  Shape vectors = shape;
  vectors.append(mean.dim(-1));
  const Array z = normal(key, vectors, dtype, in_front("multivariate_normal", shape, placement));
  const Array factor = linalg::cholesky(convert(covariance, dtype));
  const Array x = squeeze(matmul(factor, expand_dims(z, -1)), {-1});
  return add(x, full_parameter("multivariate_normal", mean, dtype, vectors));
}

Array orthogonal(const ArrayOperand& key, std::int64_t n, const Shape& shape, DType dtype, std::int64_t m,
                 const Placement& placement) {
  check_one_key("orthogonal", key);
  const std::int64_t columns = m == 0 ? n : m;
  if (n < 1 || columns < 1) {
    throw ValueError(fmt::format("random::orthogonal: n and m must be at least 1, got {} and {}", n, m));
  }
  Shape matrices = shape;
  matrices.append(std::max(n, columns));
  matrices.append(std::min(n, columns));
  const auto [q, r] = linalg::qr(normal(key, matrices, dtype, in_front("orthogonal", shape, placement)));
  // A diagonal of r above 0 makes the factors unique, and with that their distribution the uniform one.
  const Array x = mul(q, expand_dims(sign(diagonal(r)), -2));
  return n < columns ? swapaxes(x, -1, -2) : x;
}

}  // namespace lockstep::random
