#include "engine/ops/linalg/matrices.h"

#include <numeric>
#include <utility>

#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep::ops {

void expect_matrices(const ir::InferContext& context, std::size_t operand) {
  infer::expect_dtype(context, operand, matrix_dtypes);
  if (context.inputs[operand].shape.rank() >= 2) return;
  infer::shape_error(context, "rank 2 or more for operand " + std::to_string(operand), "reshape it to [rows, columns]");
}

void expect_square(const ir::InferContext& context, std::size_t operand) {
  expect_matrices(context, operand);
  const Shape& shape = context.inputs[operand].shape;
  if (shape.dim(-1) == shape.dim(-2)) return;
  infer::shape_error(context, "square matrices for operand " + std::to_string(operand),
                     "slice it or pad it to as many rows as columns");
}

std::int64_t rows(const Value& x) { return x.shape().dim(-2); }
std::int64_t columns(const Value& x) { return x.shape().dim(-1); }

Shape batch_then(const Shape& matrices, std::initializer_list<std::int64_t> rest) {
  Shape shape(matrices.dims().first(static_cast<std::size_t>(matrices.rank() - 2)));
  for (const std::int64_t extent : rest) shape.append(extent);
  return shape;
}

Value matmul(const Value& a, const Value& b) {
  Dims batch = repeated(a.rank() - 2);
  std::iota(batch.begin(), batch.end(), std::int64_t{0});
  const std::int64_t last = a.rank() - 1;
  return apply_one(primitives::dot_general(), {a, b},
                   {{"contract", std::vector<Dims>{{last}, {last - 1}}}, {"batch", std::vector<Dims>{batch, batch}}});
}

Value matrix_transpose(const Value& x) {
  Dims permutation = repeated(x.rank());
  std::iota(permutation.begin(), permutation.end(), std::int64_t{0});
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(x, permutation);
}

Value conjugate(const Value& x) { return is_complex(x.dtype()) ? conj(x) : x; }

Value adjoint(const Value& x) { return conjugate(matrix_transpose(x)); }

namespace {

/// `x` where the row and column numbers compare so, else zeros.
Value where_positions(const Value& x, Value (*holds)(const Value&, const Value&), const Value& kept) {
  ir::Builder& builder = x.builder();
  const Value row = iota(builder, DType::int32, x.shape(), x.rank() - 2);
  const Value column = iota(builder, DType::int32, x.shape(), x.rank() - 1);
  return select(holds(row, column), kept, full_like(x, 0));
}

}  // namespace

Value lower_triangle(const Value& x, bool strictly) {
  return where_positions(x, strictly ? greater : greater_equal, x);
}

Value upper_triangle(const Value& x, bool strictly) { return where_positions(x, strictly ? less : less_equal, x); }

Value half_lower(const Value& x) { return (lower_triangle(x) + lower_triangle(x, true)) * 0.5; }

Value hermitian_of_lower(const Value& x) {
  const Value half = half_lower(x);
  return half + adjoint(half);
}

Value matrix_diagonal(const Value& x) {
  const std::int64_t extent = std::min(rows(x), columns(x));
  const Value square = block(x, 0, extent, 0, extent);
  return reduce_sum(where_positions(square, equal, square), {x.rank() - 1});
}

Value identity(ir::Builder& builder, DType dtype, const Shape& shape) {
  const Value ones = full(builder, dtype, shape, 1);
  return where_positions(ones, equal, ones);
}

Value plus_imaginary_diagonal(const Value& x, const Value& source) {
  if (!is_complex(x.dtype())) return x;
  const Value imaginary = where_positions(imag(source), equal, imag(source));
  return x + complex(full_like(imaginary, 0), imaginary);
}

Value real_part(const Value& x) { return is_complex(x.dtype()) ? real(x) : x; }

std::optional<Value> turn_of(const Value& x, const Value& dx) {
  if (!is_complex(x.dtype()) || x.type().size() == 0) return std::nullopt;
  const Dims down{x.rank() - 2};
  const auto reduced = [&](const ir::Primitive& op, const Value& y) { return apply_one(op, {y}, {{"axes", down}}); };
  const auto repeated = [&](const Value& row) { return broadcast_reduced(row, x.shape(), down); };
  const Value size = abs(x);
  const Value row = iota(x.builder(), DType::int32, x.shape(), x.rank() - 2);
  const Value large = greater_equal(size, repeated(reduced(primitives::reduce_max(), size)) * 0.7);
  const Value first =
      reduced(primitives::reduce_min(), select(large, row, full_like(row, static_cast<double>(rows(x)))));
  const Value decides = equal(row, repeated(first));
  const auto deciding = [&](const Value& part) { return reduce_sum(select(decides, part, full_like(part, 0)), down); };
  const Value angle = deciding(imag(dx)) / deciding(real(x));
  return complex(full_like(angle, 0), angle);
}

Value turned_back(const Value& x, const Value& dx, const std::optional<Value>& turn) {
  return turn ? dx - x * broadcast_reduced(*turn, x.shape(), {x.rank() - 2}) : dx;
}

DType part_dtype(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  return dtype == DType::complex128 ? DType::float64 : dtype;
}

Value block(const Value& x, std::int64_t row, std::int64_t row_end, std::int64_t column, std::int64_t column_end) {
  if (row == 0 && row_end == rows(x) && column == 0 && column_end == columns(x)) return x;
  const auto rank = static_cast<std::size_t>(x.rank());
  Dims start(rank, 0);
  Dims limit = x.shape().to_vector();
  start[rank - 2] = row;
  start[rank - 1] = column;
  limit[rank - 2] = row_end;
  limit[rank - 1] = column_end;
  return slice(x, start, limit, Dims(rank, 1));
}

TriangularSolve::TriangularSolve(const Attrs& attrs)
    : left_side(attrs.get<bool>("left_side")),
      lower(attrs.get<bool>("lower")),
      transpose_a(attrs.get<bool>("transpose_a")),
      conjugate_a(attrs.get<bool>("conjugate_a")),
      unit_diagonal(attrs.get<bool>("unit_diagonal")) {}

Attrs TriangularSolve::attrs() const {
  return {{"left_side", left_side},
          {"lower", lower},
          {"transpose_a", transpose_a},
          {"conjugate_a", conjugate_a},
          {"unit_diagonal", unit_diagonal}};
}

Value triangular_solve(const Value& a, const Value& b, const TriangularSolve& how) {
  return apply_one(primitives::triangular_solve(), {a, b}, how.attrs());
}

}  // namespace lockstep::ops
