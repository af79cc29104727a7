#include <cmath>
#include <limits>

#include "engine/ops/linalg/matrices.h"
#include "engine/ops/linalg/matrix_samples.h"
#include "engine/ops/linalg/reference_matrix.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> cholesky_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  expect_square(context, 0);
  return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
}

/// L^-1 dL = Phi(L^-1 dA L^-H), Phi taking the lower triangle with its diagonal halved: Murray, "Differentiation of the
/// Cholesky decomposition" (2016).
Value cholesky_jvp(const Value&, const Value& l, const Value& da) {
  const Value right = triangular_solve(l, hermitian_of_lower(da), TriangularSolve(false, true, true, true, false));
  const Value both = triangular_solve(l, right, TriangularSolve(true, true, false, false, false));
  return matmul(l, half_lower(both));
}

/// Whether the matrix is positive definite; `l` is complete only then.
template <class T>
bool factor(const reference::Matrix<T>& a, reference::Matrix<T>& l) {
  for (std::int64_t j = 0; j < a.rows(); ++j) {
    double pivot = reference::real_part(a(j, j));
    for (std::int64_t k = 0; k < j; ++k) pivot -= std::norm(l(j, k));
    if (!(pivot > 0)) return false;
    l(j, j) = std::sqrt(pivot);
    for (std::int64_t i = j + 1; i < a.rows(); ++i) {
      T sum = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) sum -= l(i, k) * reference::conjugate(l(j, k));
      l(i, j) = sum / l(j, j);
    }
  }
  return true;
}

template <class T>
void cholesky_matrix(const ir::ReferenceContext& context, std::int64_t k) {
  const auto a = reference::load_matrix<T>(context.inputs[0], k);
  reference::Matrix<T> l(a.rows(), a.rows());
  if (!factor(a, l)) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      for (std::int64_t j = 0; j <= i; ++j) l(i, j) = T(std::numeric_limits<double>::quiet_NaN());
    }
  }
  reference::store_matrix(context.outputs[0], k, l);
}

std::vector<ir::Sample> cholesky_samples() {
  std::vector<ir::Sample> list = matrix_samples({{4, 4}, {2, 3, 3}, {1, 1}, {0, 0}, {0, 2, 2}}, {}, separated);
  list.push_back({{samples::input(DType::float32, Shape{2, 2}, {-2, -1})}, {}, {}});  // NaN: not positive definite
  return list;
}

}  // namespace

const Primitive& primitives::cholesky() {
  static const Primitive op{
      .name = "cholesky",
      .infer = cholesky_infer,
      .derivative = derivative::unary(cholesky_jvp),
      .batch = batch::pointwise(cholesky),
      .reference = reference::by_matrix(
          []<class T>(const ir::ReferenceContext& context, std::int64_t k) { cholesky_matrix<T>(context, k); }),
      .flops = flops::per_matrix([](double, double n) { return n * n * n / 3; }),
      .samples = cholesky_samples,
      .error_samples = square_errors({}),
      .traits = {},
      .layout = layout::leading(2)};
  return op;
}

}  // namespace lockstep::ops
