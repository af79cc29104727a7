#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/lists.h"
#include "engine/ops/linalg/matrices.h"
#include "engine/ops/linalg/matrix_samples.h"
#include "engine/ops/linalg/reference_matrix.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> eigh_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  expect_square(context, 0);
  static_cast<void>(context.attrs.get<bool>("lower"));
  const Shape& a = context.inputs[0].shape;
  const DType dtype = context.inputs[0].dtype;
  return {{part_dtype(dtype), batch_then(a, {a.dim(-1)}), {}}, {dtype, a, {}}};
}

/// dw = diag(v^H da v), dv = v (F * v^H da v) with F(i, j) = 1 / (w_j - w_i) off the diagonal; and what keeps the deciding
/// elements of complex vectors real.
std::vector<Tangent> eigh_jvp(const JvpContext& context) {
  const Value& w = context.outputs[0];
  const Value& v = context.outputs[1];
  const Value& given = *context.tangents[0];
  const Value da = hermitian_of_lower(context.attrs.get<bool>("lower") ? given : adjoint(given));
  const Value inner = matmul(matmul(adjoint(v), da), v);
  const Value across = convert(broadcast_reduced(w, v.shape(), {v.rank() - 2}), v.dtype());
  const Value ones = identity(v.builder(), v.dtype(), v.shape());
  const Value weights = full_like(ones, 1) / (across - matrix_transpose(across) + ones) - ones;
  const Value dv = matmul(v, weights * inner);
  return {real_part(matrix_diagonal(inner)), turned_back(v, dv, turn_of(v, dv))};
}

/// The Hermitian matrix of one triangle of `a`.
template <class T>
reference::Matrix<T> completed_hermitian(const reference::Matrix<T>& a, bool lower) {
  reference::Matrix<T> result(a.rows(), a.rows());
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      result(i, j) = lower ? a(i, j) : reference::conjugate(a(j, i));
      result(j, i) = reference::conjugate(result(i, j));
    }
    result(i, i) = reference::real_part(a(i, i));
  }
  return result;
}

/// Turns `a` until it is diagonal.
template <class T>
void diagonalize(reference::Matrix<T>& a, reference::Matrix<T>& v) {
  constexpr int most_sweeps = 60;
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    bool turned = false;
    for (std::int64_t p = 0; p < a.rows(); ++p) {
      for (std::int64_t q = p + 1; q < a.rows(); ++q) {
        const double size = std::abs(reference::real_part(a(p, p))) + std::abs(reference::real_part(a(q, q)));
        if (std::abs(a(p, q)) <= 0x1p-56 * size) continue;
        const reference::JacobiRotation<T> rotation(reference::real_part(a(p, p)), reference::real_part(a(q, q)),
                                                    a(p, q));
        rotation.turn(a, p, q);
        reference::Matrix<T> rest = a.adjoint();
        rotation.turn(rest, p, q);
        a = rest.adjoint();
        rotation.turn(v, p, q);
        turned = true;
      }
    }
    if (!turned) return;
  }
}

template <class T>
void eigh_matrix(const ir::ReferenceContext& context, std::int64_t k) {
  auto a = completed_hermitian(reference::load_matrix<T>(context.inputs[0], k), context.attrs.get<bool>("lower"));
  auto v = reference::Matrix<T>::identity(a.rows());
  diagonalize(a, v);
  std::vector<double> w;
  for (std::int64_t i = 0; i < a.rows(); ++i) w.push_back(reference::real_part(a(i, i)));
  for (std::int64_t j = 0; j < a.rows(); ++j) {
    const auto smallest = std::min_element(w.begin() + j, w.end()) - w.begin();
    std::swap(nth(w, j), nth(w, smallest));
    v.swap_columns(j, smallest);
    v.scale_column(j, reference::canonical_factor(v, j));
  }
  reference::store_row(context.outputs[0], k, w);
  reference::store_matrix(context.outputs[1], k, v);
}

std::vector<ir::Sample> eigh_samples() {
  std::vector<ir::Sample> list =
      matrix_samples({{4, 4}, {2, 3, 3}, {1, 1}, {0, 0}, {0, 2, 2}}, {{"lower", true}}, separated);
  for (ir::Sample& sample : matrix_samples({{3, 3}}, {{"lower", false}}, separated)) list.push_back(std::move(sample));
  return list;
}

}  // namespace

const Primitive& primitives::eigh() {
  static const Primitive op{
      .name = "eigh",
      .infer = eigh_infer,
      .derivative = derivative::jvp(eigh_jvp),
      .batch = batch::pointwise(eigh),
      .reference = reference::by_matrix(
          []<class T>(const ir::ReferenceContext& context, std::int64_t k) { eigh_matrix<T>(context, k); }),
      .flops = flops::per_matrix([](double, double n) { return 9 * n * n * n; }),
      .samples = eigh_samples,
      .error_samples = square_errors({{"lower", true}}),
      .traits = {},
      .layout = layout::leading(2)};
  return op;
}

}  // namespace lockstep::ops
