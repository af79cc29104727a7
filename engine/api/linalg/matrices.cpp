#include "engine/api/linalg/matrices.h"

#include <limits>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep::api {

Array matrices(std::string_view op, const Array& x) {
  if (x.ndim() < 2) {
    throw ShapeError(fmt::format("{}: needs matrices, arrays of rank 2 or more, got {}; reshape it to [rows, columns]",
                                 op, to_string(x.type())));
  }
  return convert(x, inexact(x.dtype()));
}

Array square_matrices(std::string_view op, const Array& x) {
  const Array result = matrices(op, x);
  if (x.dim(-1) != x.dim(-2)) {
    throw ShapeError(
        fmt::format("{}: needs square matrices, got {}; use pinv or lstsq, or slice it", op, to_string(x.type())));
  }
  return result;
}

void expect_rank(std::string_view op, const Array& x, int rank) {
  if (x.ndim() == rank) return;
  throw ShapeError(fmt::format("{}: needs an array of rank {}, got {}; vmap it over the other dimensions", op, rank,
                               to_string(x.type())));
}

Array matrix_transpose(const Array& x) { return swapaxes(x, -1, -2); }
Array conjugated(const Array& x) { return conj(x); }
Array adjoint(const Array& x) { return conjugated(matrix_transpose(x)); }
Array squared_magnitudes(const Array& x) {
  return is_complex(x.dtype()) ? square(real(x)) + square(imag(x)) : square(x);
}

Array identity_of(const Array& like) {
  return convert(equal(iota(like.shape(), -2), iota(like.shape(), -1)), like.dtype());
}

double epsilon(DType dtype) {
  return dtype == DType::float64 || dtype == DType::complex128 ? std::numeric_limits<double>::epsilon()
                                                               : std::numeric_limits<float>::epsilon();
}

std::pair<Array, Array> one_batch(std::string_view op, const Array& a, const Array& b) {
  const Operand left = a;
  const Operand right = b;
  const DType dtype = common_dtype({&left, &right});
  const auto batch_of = [](const Array& x) {
    return Shape(x.shape().dims().first(static_cast<std::size_t>(x.ndim() - 2)));
  };
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(b), op);
  const AxisSet varying = joined_varying({&left, &right});
  const auto widened = [&](const Array& x) {
    Shape shape = batch;
    shape.append(x.dim(-2));
    shape.append(x.dim(-1));
    return x.shape() == shape ? x : broadcast(op, varying_along(x, varying), shape);
  };
  return {widened(convert(a, dtype)), widened(convert(b, dtype))};
}

RightSide::RightSide(std::string_view op, const Array& a, const Array& b) : vector(b.ndim() == 1) {
  if (b.ndim() == 0) {
    throw ShapeError(
        fmt::format("{}: needs a vector or matrices to solve for, got {}; reshape it to [1]", op, to_string(b.type())));
  }
  if (b.dim(vector ? -1 : -2) != a.dim(-1)) {
    throw ShapeError(fmt::format("{}: {} has {} rows, expected {}, as many as {} has; transpose or slice it", op,
                                 to_string(b.type()), b.dim(vector ? -1 : -2), a.dim(-1), to_string(a.type())));
  }
  std::tie(this->a, this->b) = one_batch(op, a, matrices(op, vector ? expand_dims(b, -1) : b));
}

Array RightSide::as_given(const Array& x) const { return vector ? squeeze(x, {-1}) : x; }

Array triangular_solve(const Array& a, const Array& b, const TriangularForm& form) {
  return bind_one(ops::primitives::triangular_solve(), {a, b},
                  {{"left_side", form.left_side},
                   {"lower", form.lower},
                   {"transpose_a", form.transposed},
                   {"conjugate_a", form.conjugated},
                   {"unit_diagonal", form.unit_diagonal}});
}

}  // namespace lockstep::api
