#include <algorithm>
#include <array>

#include <lockstep/error.h>

#include "engine/ops/linalg/matrices.h"
#include "engine/ops/linalg/matrix_samples.h"
#include "engine/ops/linalg/reference_matrix.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> qr_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  expect_matrices(context, 0);
  const bool full = context.attrs.get<bool>("full_matrices");
  const Shape& a = context.inputs[0].shape;
  const std::int64_t m = a.dim(-2);
  const std::int64_t n = a.dim(-1);
  const std::int64_t k = full ? m : std::min(m, n);
  const DType dtype = context.inputs[0].dtype;
  return {{dtype, batch_then(a, {m, k}), {}}, {dtype, batch_then(a, {k, n}), {}}};
}

/// The tangents of q and r, of matrices with at least as many rows as columns: with da r^-1 = dq + q dr r^-1 and q^H dq
/// skew-Hermitian, whose diagonal is imaginary since r's is real.
std::array<Value, 2> tall_tangents(const Value& q, const Value& r, const Value& da) {
  const Value right = triangular_solve(r, da, TriangularSolve(false, false, false, false, false));
  const Value inner = matmul(adjoint(q), right);
  const Value below = lower_triangle(inner, true);
  const Value skew = plus_imaginary_diagonal(below - adjoint(below), inner);
  return {matmul(q, skew - inner) + right, matmul(inner - skew, r)};
}

std::vector<Tangent> qr_jvp(const JvpContext& context) {
  const Value& a = context.inputs[0];
  const Value& q = context.outputs[0];
  const Value& r = context.outputs[1];
  const Value& da = *context.tangents[0];
  const std::int64_t m = rows(a);
  const std::int64_t n = columns(a);
  if (m > n && context.attrs.get<bool>("full_matrices")) {
    throw TraceError("qr: no derivative of all " + std::to_string(m) + " columns of q of a matrix of " +
                     std::to_string(n) + " columns, which do not determine them; use full_matrices=false");
  }
  if (a.type().size() == 0) return {std::nullopt, std::nullopt};
  if (m >= n) {
    const auto [dq, dr] = tall_tangents(q, r, da);
    return {dq, dr};
  }
  const Value dq = tall_tangents(q, block(r, 0, m, 0, m), block(da, 0, m, 0, m))[0];
  return {dq, upper_triangle(matmul(adjoint(dq), a) + matmul(adjoint(q), da))};
}

template <class T>
void qr_matrix(const ir::ReferenceContext& context, std::int64_t k) {
  const auto factors = reference::householder_qr(reference::load_matrix<T>(context.inputs[0], k));
  const std::int64_t count = context.outputs[0].type.shape.dim(-1);
  reference::store_matrix(context.outputs[0], k, factors.q.first_columns(count));
  reference::store_matrix(context.outputs[1], k, factors.r.adjoint().first_columns(count).adjoint());
}

std::vector<ir::Sample> qr_samples() {
  const Attrs thin{{"full_matrices", false}};
  const Attrs full{{"full_matrices", true}};
  const MatrixRange range{{-2, 2, true}};
  std::vector<ir::Sample> list =
      matrix_samples({{3, 3}, {5, 3}, {3, 5}, {2, 4, 2}, {1, 1}, {0, 0}, {3, 0}, {0, 3}, {0, 2, 2}}, thin, range);
  for (ir::Sample& sample : matrix_samples({{3, 3}, {2, 4}}, full, range)) list.push_back(std::move(sample));
  for (const Shape& shape : {Shape{5, 3}, Shape{3, 0}, Shape{2, 4, 1}}) {  // float32 alone: no derivative
    list.push_back({{matrix_input(DType::float32, shape, range)}, full, {}});
  }
  return list;
}

/// By Householder reflections, and as much again for q.
double qr_flops(double m, double n) {
  const double k = std::min(m, n);
  return 8 * (m * n * k - (m + n) * k * k / 2 + k * k * k / 3);
}

}  // namespace

const Primitive& primitives::qr() {
  static const Primitive op{
      .name = "qr",
      .infer = qr_infer,
      .derivative = derivative::jvp(qr_jvp),
      .batch = batch::pointwise(qr),
      .reference = reference::by_matrix(
          []<class T>(const ir::ReferenceContext& context, std::int64_t k) { qr_matrix<T>(context, k); }),
      .flops = flops::per_matrix(qr_flops),
      .samples = qr_samples,
      .error_samples = matrix_errors({{"full_matrices", false}}),
      .traits = {},
      .layout = layout::leading(2)};
  return op;
}

}  // namespace lockstep::ops
