#pragma once

#include <string_view>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>

// What the bodies of linalg.h share. Every check throws ShapeError naming `op`.
namespace lockstep::api {

/// `x` as matrices of an inexact dtype.
Array matrices(std::string_view op, const Array& x);
Array square_matrices(std::string_view op, const Array& x);
void expect_rank(std::string_view op, const Array& x, int rank);

Array matrix_transpose(const Array& x);
Array conjugated(const Array& x);
Array adjoint(const Array& x);
/// |x|^2 with all its derivatives at 0, which abs has not.
Array squared_magnitudes(const Array& x);
Array identity_of(const Array& like);
/// The difference between 1 and the next number of a dtype, or of a complex one's parts.
LOCKSTEP_API double epsilon(DType dtype);

/// Both with one dtype and one batch shape, the matrix dimensions as they are.
std::pair<Array, Array> one_batch(std::string_view op, const Array& a, const Array& b);

/// Right-hand sides as matrices for `a`; what was a vector is one column, which `as_given` takes away again.
struct RightSide {
  Array a, b;
  bool vector;

  RightSide(std::string_view op, const Array& a, const Array& b);
  Array as_given(const Array& x) const;
};

struct TriangularForm {
  bool left_side = true;
  bool lower = true;
  bool transposed = false;
  bool conjugated = false;
  bool unit_diagonal = false;
};
Array triangular_solve(const Array& a, const Array& b, const TriangularForm& form);

}  // namespace lockstep::api
