#include "engine/ops/linalg/matrices.h"
#include "engine/ops/linalg/matrix_samples.h"
#include "engine/ops/linalg/reference_matrix.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> solve_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  expect_square(context, 0);
  expect_matrices(context, 1);
  infer::expect_same_dtype(context);
  const TriangularSolve how(context.attrs);
  const Shape& a = context.inputs[0].shape;
  const Shape& b = context.inputs[1].shape;
  Shape expected = b;
  if (a.rank() == b.rank()) {
    expected = b.with(b.rank() - 1, a.dim(-1)).with(b.rank() - 2, a.dim(-1));
  }
  if (a != expected) {
    infer::shape_error(context, "equal batch dimensions, the rest of a " + to_string(a), "broadcast_in_dim an operand");
  }
  if (a.dim(-1) != b.dim(how.left_side ? -2 : -1)) {
    infer::shape_error(
        context,
        "as many " + std::string(how.left_side ? "rows" : "columns") + " of b as a has, " + std::to_string(a.dim(-1)),
        "transpose b, or solve from the other side");
  }
  return {context.inputs[1]};
}

/// op(dx), of the triangle that the op reads.
Value read_part(const Value& da, const TriangularSolve& how) {
  const Value triangle = how.lower ? lower_triangle(da, how.unit_diagonal) : upper_triangle(da, how.unit_diagonal);
  const Value conjugated = how.conjugate_a ? conjugate(triangle) : triangle;
  return how.transpose_a ? matrix_transpose(conjugated) : conjugated;
}

std::vector<Tangent> solve_jvp(const JvpContext& context) {
  const TriangularSolve how(context.attrs);
  const Value& a = context.inputs[0];
  const Value& x = context.outputs[0];
  Tangent result;
  if (context.tangents[1]) result = triangular_solve(a, *context.tangents[1], how);
  if (context.tangents[0]) {
    const Value part = read_part(*context.tangents[0], how);
    const Value product = how.left_side ? matmul(part, x) : matmul(x, part);
    result = derivative::add_tangents(result, -triangular_solve(a, product, how));
  }
  return {result};
}

std::vector<Tangent> solve_transpose(const TransposeContext& context) {
  TriangularSolve how(context.attrs);
  how.transpose_a = !how.transpose_a;
  return {std::nullopt, triangular_solve(*context.inputs[0], *context.cotangents[0], how)};
}

ir::Derivative solve_derivative() {
  ir::Derivative rule = derivative::jvp(solve_jvp);
  rule.transpose = solve_transpose;
  rule.linear_in = {1};
  return rule;
}

/// op(a), zeros outside of its triangle and ones on the diagonal where it is taken as such.
template <class T>
reference::Matrix<T> operation(const reference::Matrix<T>& a, const TriangularSolve& how) {
  reference::Matrix<T> result(a.rows(), a.rows());
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t j = 0; j < a.rows(); ++j) {
      if (how.lower ? i < j : i > j) continue;
      T element = how.conjugate_a ? reference::conjugate(a(i, j)) : a(i, j);
      if (i == j && how.unit_diagonal) element = T(1);
      result(how.transpose_a ? j : i, how.transpose_a ? i : j) = element;
    }
  }
  return result;
}

template <class T>
void solve_matrix(const ir::ReferenceContext& context, std::int64_t k) {
  const TriangularSolve how(context.attrs);
  const reference::Matrix<T> a = operation(reference::load_matrix<T>(context.inputs[0], k), how);
  reference::Matrix<T> x = reference::load_matrix<T>(context.inputs[1], k);
  const std::int64_t n = a.rows();
  const std::int64_t systems = how.left_side ? x.columns() : x.rows();
  // x op(a) = b is op(a)^T x^T = b^T.
  const auto coefficient = [&](std::int64_t i, std::int64_t j) { return how.left_side ? a(i, j) : a(j, i); };
  const auto unknown = [&](std::int64_t i, std::int64_t c) -> T& { return how.left_side ? x(i, c) : x(c, i); };
  const bool forward = (how.lower != how.transpose_a) == how.left_side;
  for (std::int64_t c = 0; c < systems; ++c) {
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t i = forward ? step : n - 1 - step;
      T sum = unknown(i, c);
      for (std::int64_t j = forward ? 0 : i + 1; j < (forward ? i : n); ++j) sum -= coefficient(i, j) * unknown(j, c);
      unknown(i, c) = sum / coefficient(i, i);
    }
  }
  reference::store_matrix(context.outputs[0], k, x);
}

std::vector<ir::Sample> solve_samples() {
  std::vector<ir::Sample> list;
  const auto add = [&](DType dtype, const Shape& a, const Shape& b, const TriangularSolve& how) {
    list.push_back({{matrix_input(dtype, a, separated), samples::input(dtype, b)}, how.attrs(), {}});
  };
  for (const DType dtype : matrix_sample_dtypes()) {
    for (int bits = 0; bits < 32; ++bits) {
      if ((bits & 8) != 0 && !is_complex(dtype) && bits > 8) continue;
      const TriangularSolve how((bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0);
      add(dtype, {3, 3}, how.left_side ? Shape{3, 2} : Shape{2, 3}, how);
    }
    const TriangularSolve plain(true, true, false, false, false);
    add(dtype, {2, 3, 3}, {2, 3, 1}, plain);
    add(dtype, {2, 2, 2}, {2, 4, 2}, TriangularSolve(false, false, true, false, true));
    add(dtype, {1, 1}, {1, 1}, plain);
    add(dtype, {0, 0}, {0, 2}, plain);
    add(dtype, {2, 2}, {2, 0}, plain);
    add(dtype, {0, 2, 2}, {0, 2, 3}, plain);
  }
  return list;
}

std::vector<ir::ErrorSample> solve_errors() {
  const ArrayType a{DType::float32, Shape{3, 3}, {}};
  const ArrayType b{DType::float32, Shape{3, 2}, {}};
  const Attrs left = TriangularSolve(true, true, false, false, false).attrs();
  const Attrs right = TriangularSolve(false, true, false, false, false).attrs();
  return {{{a}, left, "expected 2 operands", {}},
          {{b, b}, left, "expected square matrices for operand 0", {}},
          {{a, {DType::float32, Shape{3}, {}}}, left, "expected rank 2 or more for operand 1", {}},
          {{a, {DType::float64, Shape{3, 2}, {}}}, left, "operands of one dtype", {}},
          {{a, {DType::float32, Shape{2, 3, 2}, {}}}, left, "equal batch dimensions", {}},
          {{a, {DType::float32, Shape{2, 3}, {}}}, left, "as many rows of b as a has, 3", {}},
          {{a, b}, right, "as many columns of b as a has, 3", {}}};
}

double solve_flops(const ir::CostContext& context) {
  return static_cast<double>(context.inputs[0].shape.dim(-1)) * static_cast<double>(context.inputs[1].size());
}

}  // namespace

const Primitive& primitives::triangular_solve() {
  static const Primitive op{
      .name = "triangular_solve",
      .infer = solve_infer,
      .derivative = solve_derivative(),
      .batch = batch::pointwise(triangular_solve),
      .reference = reference::by_matrix(
          []<class T>(const ir::ReferenceContext& context, std::int64_t k) { solve_matrix<T>(context, k); }),
      .flops = solve_flops,
      .samples = solve_samples,
      .error_samples = solve_errors,
      .traits = {},
      .layout = layout::leading(2)};
  return op;
}

}  // namespace lockstep::ops
