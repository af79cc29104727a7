#pragma once

#include <cstdint>
#include <optional>

#include "engine/ops/rules/infer.h"
#include "engine/ops/values.h"

// What the rules of the matrix ops are written with. The last two dimensions are matrices, all before them a batch.
namespace lockstep::ops {

/// What LAPACK computes in.
inline constexpr infer::DtypeClass matrix_dtypes{
    "float32, float64, complex64 or complex128",
    [](DType d) { return d == DType::float32 || d == DType::float64 || is_complex(d); }, "convert(x, float32)"};

/// Operand `operand` is a batch of matrices of a dtype that LAPACK has.
void expect_matrices(const ir::InferContext& context, std::size_t operand);
void expect_square(const ir::InferContext& context, std::size_t operand);

std::int64_t rows(const Value& x);
std::int64_t columns(const Value& x);
/// The dimensions before a matrix, then `rest`.
Shape batch_then(const Shape& matrices, std::initializer_list<std::int64_t> rest);

/// The product of two batches of matrices.
Value matmul(const Value& a, const Value& b);
/// The last two dimensions exchanged.
Value matrix_transpose(const Value& x);
Value conjugate(const Value& x);
/// The transpose, conjugated.
Value adjoint(const Value& x);

/// Elements (i, j) with i >= j, the others 0; strictly: i > j.
Value lower_triangle(const Value& x, bool strictly = false);
Value upper_triangle(const Value& x, bool strictly = false);
/// The lower triangle, its diagonal halved.
Value half_lower(const Value& x);
/// The Hermitian matrix that has the lower triangle of `x`.
Value hermitian_of_lower(const Value& x);
/// Elements (i, i).
Value matrix_diagonal(const Value& x);
/// Ones on the diagonal, zeros elsewhere.
Value identity(ir::Builder& builder, DType dtype, const Shape& shape);
/// `x` plus i times the imaginary part of the diagonal of `source`; `x` itself for real ones.
Value plus_imaginary_diagonal(const Value& x, const Value& source);
Value real_part(const Value& x);
/// The dtype of a number's real part.
DType part_dtype(DType dtype);
/// Of orthonormal columns whose deciding element (ops.def, svd) is real, and their tangent: i times the angle by which the
/// tangent turns each deciding element away from the real numbers. Nothing for real columns.
std::optional<Value> turn_of(const Value& x, const Value& dx);
/// The tangent of such columns without that turn.
Value turned_back(const Value& x, const Value& dx, const std::optional<Value>& turn);
/// A part of the last two dimensions.
Value block(const Value& x, std::int64_t row, std::int64_t row_end, std::int64_t column, std::int64_t column_end);

/// Attributes of triangular_solve: x with op(a) x = b, or x op(a) = b. op(a) is a or its transpose, conjugated or not.
struct TriangularSolve {
  bool left_side = true;
  bool lower = true;
  bool transpose_a = false;
  bool conjugate_a = false;
  bool unit_diagonal = false;

  explicit TriangularSolve(const Attrs& attrs);
  TriangularSolve(bool left_side, bool lower, bool transpose_a, bool conjugate_a, bool unit_diagonal)
      : left_side(left_side),
        lower(lower),
        transpose_a(transpose_a),
        conjugate_a(conjugate_a),
        unit_diagonal(unit_diagonal) {}
  Attrs attrs() const;
};
Value triangular_solve(const Value& a, const Value& b, const TriangularSolve& how);

}  // namespace lockstep::ops
