#include <algorithm>

#include <lockstep/error.h>

#include "engine/ops/linalg/matrices.h"
#include "engine/ops/linalg/matrix_samples.h"
#include "engine/ops/linalg/reference_matrix.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> svd_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  expect_matrices(context, 0);
  const bool full = context.attrs.get<bool>("full_matrices");
  const Shape& a = context.inputs[0].shape;
  const std::int64_t m = a.dim(-2);
  const std::int64_t n = a.dim(-1);
  const std::int64_t k = std::min(m, n);
  const DType dtype = context.inputs[0].dtype;
  const ArrayType s{part_dtype(dtype), batch_then(a, {k}), {}};
  if (!context.attrs.get<bool>("compute_uv")) return {s};
  return {{dtype, batch_then(a, {m, full ? m : k}), {}}, s, {dtype, batch_then(a, {full ? n : k, n}), {}}};
}

/// What the rule is written in: u, s as rows and as columns, the inner tangent u^H da v.
struct Factors {
  Value u, v, da, inner;
  Value across, down;  ///< s repeated down the rows (element (i, j) is s_j), and across (element (i, j) is s_i).

  Factors(const Value& u, const Value& s, const Value& vh, const Value& da)
      : u(u),
        v(adjoint(vh)),
        da(da),
        inner(matmul(matmul(adjoint(u), da), v)),
        across(along_columns(s, inner)),
        down(matrix_transpose(across)) {}

  static Value along_columns(const Value& s, const Value& like) {
    return convert(broadcast_reduced(s, like.shape(), {like.rank() - 2}), like.dtype());
  }
};

/// `part` is da v for u, da^H u for v: what of it leaves the span of `basis`, divided by s.
Value outside(const Value& basis, const Value& part, const Value& s) {
  const Value beyond = part - matmul(basis, matmul(adjoint(basis), part));
  return beyond / Factors::along_columns(s, beyond);
}

/// Giles, "An extended collection of matrix derivative results" (2008), with the vectors beyond the square case. Of complex
/// vectors u and v turn together, so that the deciding elements of u stay real.
std::vector<Tangent> vector_tangents(const Factors& f, const Value& s) {
  const Value ones = identity(f.u.builder(), f.inner.dtype(), f.inner.shape());
  const Value gaps = (f.across + f.down) * (f.across - f.down) + ones;
  const Value weights = full_like(gaps, 1) / gaps - ones;
  const Value right = f.across * f.inner;
  const Value left = f.down * f.inner;
  Value du = matmul(f.u, plus_imaginary_diagonal(weights * (right + adjoint(right)), f.inner / f.across));
  Value dv = matmul(f.v, weights * (left + adjoint(left)));
  if (rows(f.u) > columns(f.u)) du = du + outside(f.u, matmul(f.da, f.v), s);
  if (rows(f.v) > columns(f.v)) dv = dv + outside(f.v, matmul(adjoint(f.da), f.u), s);
  const auto turn = turn_of(f.u, du);
  return {turned_back(f.u, du, turn), real_part(matrix_diagonal(f.inner)), adjoint(turned_back(f.v, dv, turn))};
}

std::vector<Tangent> svd_jvp(const JvpContext& context) {
  const Value& a = context.inputs[0];
  const bool vectors = context.attrs.get<bool>("compute_uv");
  if (a.type().size() == 0) return std::vector<Tangent>(context.outputs.size());
  if (!vectors) {
    const std::vector<Value> thin =
        apply(primitives::svd(), context.inputs, {{"full_matrices", false}, {"compute_uv", true}});
    return {real_part(matrix_diagonal(Factors(thin[0], thin[1], thin[2], *context.tangents[0]).inner))};
  }
  if (context.attrs.get<bool>("full_matrices") && rows(a) != columns(a)) {
    throw TraceError("svd: no derivative of the vectors beyond the first " +
                     std::to_string(std::min(rows(a), columns(a))) + " of a " + std::to_string(rows(a)) + " by " +
                     std::to_string(columns(a)) +
                     " matrix, which does not determine them; use full_matrices=false or compute_uv=false");
  }
  const std::span<const Value> y = context.outputs;
  return vector_tangents(Factors(y[0], y[1], y[2], *context.tangents[0]), y[1]);
}

template <class T>
void svd_matrix(const ir::ReferenceContext& context, std::int64_t k) {
  const auto factors = reference::jacobi_svd(reference::load_matrix<T>(context.inputs[0], k));
  const bool vectors = context.outputs.size() > 1;
  reference::store_row(context.outputs[vectors ? 1 : 0], k, factors.s);
  if (!vectors) return;
  const bool full = context.attrs.get<bool>("full_matrices");
  reference::store_matrix(context.outputs[0], k, full ? reference::completed(factors.u) : factors.u);
  reference::store_matrix(context.outputs[2], k, (full ? reference::completed(factors.v) : factors.v).adjoint());
}

Attrs svd_attrs(bool full_matrices, bool compute_uv) {
  return {{"full_matrices", full_matrices}, {"compute_uv", compute_uv}};
}

std::vector<ir::Sample> svd_samples() {
  std::vector<ir::Sample> list;
  const auto add = [&](std::vector<ir::Sample> samples) { list.insert(list.end(), samples.begin(), samples.end()); };
  for (const bool vectors : {true, false}) {
    add(matrix_samples({{3, 3}, {5, 3}, {3, 5}, {2, 3, 2}, {1, 1}, {0, 0}, {3, 0}, {0, 3}, {0, 2, 2}},
                       svd_attrs(false, vectors), separated));
  }
  add(matrix_samples({{3, 3}}, svd_attrs(true, true), separated));
  add(matrix_samples({{4, 3}}, svd_attrs(true, false), separated));
  for (const Shape& shape : {Shape{5, 3}, Shape{3, 5}, Shape{3, 0}, Shape{0, 2}, Shape{2, 4, 1}}) {
    // float32 alone: no derivative
    list.push_back({{matrix_input(DType::float32, shape, separated)}, svd_attrs(true, true), {}});
  }
  return list;
}

/// With both factors (Golub and Van Loan, Matrix Computations, section 8.6).
double svd_flops(double m, double n) {
  const double k = std::min(m, n), l = std::max(m, n);
  return 4 * l * l * k + 8 * l * k * k + 9 * k * k * k;
}

}  // namespace

const Primitive& primitives::svd() {
  static const Primitive op{
      .name = "svd",
      .infer = svd_infer,
      .derivative = derivative::jvp(svd_jvp),
      .batch = batch::pointwise(svd),
      .reference = reference::by_matrix(
          []<class T>(const ir::ReferenceContext& context, std::int64_t k) { svd_matrix<T>(context, k); }),
      .flops = flops::per_matrix(svd_flops),
      .samples = svd_samples,
      .error_samples = matrix_errors(svd_attrs(false, true)),
      .traits = {},
      .layout = layout::leading(2)};
  return op;
}

}  // namespace lockstep::ops
