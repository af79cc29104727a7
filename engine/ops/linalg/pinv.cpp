#include <algorithm>

#include "engine/ops/linalg/matrices.h"
#include "engine/ops/linalg/matrix_samples.h"
#include "engine/ops/linalg/reference_matrix.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> pinv_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  expect_matrices(context, 0);
  const Shape& a = context.inputs[0].shape;
  if (!(context.attrs.get<double>("rtol") >= 0)) {
    infer::shape_error(context, "rtol of 0 or more", "give the smallest singular value to invert, over the largest");
  }
  return {{context.inputs[0].dtype, batch_then(a, {a.dim(-1), a.dim(-2)}), {}}};
}

/// Golub and Pereyra (1973), of matrices of constant rank:
/// dp = -p da p + p p^H da^H (1 - a p) + (1 - p a) da^H p^H p.
Value pinv_jvp(const Value& a, const Value& p, const Value& da) {
  const Value flow = adjoint(da);
  const Value from_left = matmul(matmul(p, adjoint(p)), flow);
  const Value from_right = matmul(flow, matmul(adjoint(p), p));
  return from_left - matmul(from_left, matmul(a, p)) + from_right - matmul(matmul(p, a), from_right) -
         matmul(p, matmul(da, p));
}

template <class T>
void pinv_matrix(const ir::ReferenceContext& context, std::int64_t k) {
  const auto factors = reference::jacobi_svd(reference::load_matrix<T>(context.inputs[0], k));
  const double bound = factors.s.empty() ? 0 : context.attrs.get<double>("rtol") * factors.s.front();
  reference::Matrix<T> result(factors.v.rows(), factors.u.rows());
  for (std::size_t r = 0; r < factors.s.size() && factors.s[r] > bound; ++r) {
    const auto column = static_cast<std::int64_t>(r);
    for (std::int64_t i = 0; i < result.rows(); ++i) {
      for (std::int64_t j = 0; j < result.columns(); ++j) {
        result(i, j) += factors.v(i, column) * reference::conjugate(factors.u(j, column)) / factors.s[r];
      }
    }
  }
  reference::store_matrix(context.outputs[0], k, result);
}

std::vector<ir::Sample> pinv_samples() {
  const Attrs attrs{{"rtol", 1e-5}};
  std::vector<ir::Sample> list =
      matrix_samples({{3, 3}, {5, 3}, {3, 5}, {2, 3, 2}, {1, 1}, {0, 0}, {3, 0}, {0, 3}, {0, 2, 2}}, attrs, separated);
  list.push_back({{matrix_input(DType::float32, Shape{4, 3}, separated)}, {{"rtol", 0.7}}, {}});
  return list;
}

/// A decomposition into singular values and a product.
double pinv_flops(double m, double n) {
  const double k = std::min(m, n), l = std::max(m, n);
  return 6 * l * l * k + 8 * l * k * k + 9 * k * k * k;
}

}  // namespace

const Primitive& primitives::pinv() {
  static const Primitive op{
      .name = "pinv",
      .infer = pinv_infer,
      .derivative = derivative::unary(pinv_jvp),
      .batch = batch::pointwise(pinv),
      .reference = reference::by_matrix(
          []<class T>(const ir::ReferenceContext& context, std::int64_t k) { pinv_matrix<T>(context, k); }),
      .flops = flops::per_matrix(pinv_flops),
      .samples = pinv_samples,
      .error_samples =
          matrix_errors({{"rtol", 1e-5}},
                        {{{{DType::float32, Shape{2, 2}, {}}}, {{"rtol", -1.0}}, "expected rtol of 0 or more", {}}}),
      .traits = {},
      .layout = layout::leading(2)};
  return op;
}

}  // namespace lockstep::ops
