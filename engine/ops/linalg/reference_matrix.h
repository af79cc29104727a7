#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ops/rules/reference.h"

// Matrices for the references of the matrix ops, of double or Complex.
namespace lockstep::ops::reference {

inline double conjugate(double x) { return x; }
inline Complex conjugate(Complex x) { return std::conj(x); }
inline double real_part(double x) { return x; }
inline double real_part(Complex x) { return x.real(); }

template <class T>
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), elements_(static_cast<std::size_t>(rows * columns)) {}
  static Matrix identity(std::int64_t extent) {
    Matrix result(extent, extent);
    for (std::int64_t i = 0; i < extent; ++i) result(i, i) = T(1);
    return result;
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  T& operator()(std::int64_t i, std::int64_t j) { return nth(elements_, i * columns_ + j); }
  const T& operator()(std::int64_t i, std::int64_t j) const { return nth(elements_, i * columns_ + j); }

  Matrix adjoint() const {
    Matrix result(columns_, rows_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j) result(j, i) = conjugate((*this)(i, j));
    }
    return result;
  }
  Matrix first_columns(std::int64_t count) const {
    Matrix result(rows_, count);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < count; ++j) result(i, j) = (*this)(i, j);
    }
    return result;
  }
  void swap_columns(std::int64_t a, std::int64_t b) {
    for (std::int64_t i = 0; i < rows_; ++i) std::swap((*this)(i, a), (*this)(i, b));
  }
  void scale_column(std::int64_t j, T factor) {
    for (std::int64_t i = 0; i < rows_; ++i) (*this)(i, j) *= factor;
  }
  /// Columns p and q times the 2 x 2 matrix [[a, b], [c, d]].
  void turn_columns(std::int64_t p, std::int64_t q, T a, T b, T c, T d) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      const T left = (*this)(i, p);
      const T right = (*this)(i, q);
      (*this)(i, p) = left * a + right * c;
      (*this)(i, q) = left * b + right * d;
    }
  }

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<T> elements_;
};

inline std::int64_t matrix_count(const Shape& shape) {
  std::int64_t count = 1;
  for (int d = 0; d + 2 < shape.rank(); ++d) count *= shape[d];
  return count;
}

/// Matrix number `k` of an array.
template <class T>
Matrix<T> load_matrix(const ReferenceArray& array, std::int64_t k) {
  Matrix<T> matrix(array.type.shape.dim(-2), array.type.shape.dim(-1));
  std::int64_t at = k * matrix.rows() * matrix.columns();
  for (std::int64_t i = 0; i < matrix.rows(); ++i) {
    for (std::int64_t j = 0; j < matrix.columns(); ++j) matrix(i, j) = load<T>(array, at++);
  }
  return matrix;
}

template <class T>
void store_matrix(ReferenceArray& array, std::int64_t k, const Matrix<T>& matrix) {
  std::int64_t at = k * matrix.rows() * matrix.columns();
  for (std::int64_t i = 0; i < matrix.rows(); ++i) {
    for (std::int64_t j = 0; j < matrix.columns(); ++j) store(array, at++, matrix(i, j));
  }
}

/// Row number `k` of an array of numbers or indices.
template <class T>
void store_row(ReferenceArray& array, std::int64_t k, const std::vector<T>& row) {
  std::int64_t at = k * static_cast<std::int64_t>(row.size());
  for (const T& element : row) store(array, at++, element);
}

/// A reference that works matrix by matrix: calls run.template operator()<T>(context, k).
template <class Run>
ir::Reference by_matrix(Run run) {
  return [run](const ReferenceContext& context) {
    const ArrayType& type = context.inputs[0].type;
    dispatch<double, Complex>(type.dtype, [&]<class T>() {
      for (std::int64_t k = 0; k < matrix_count(type.shape); ++k) run.template operator()<T>(context, k);
    });
  };
}

/// The rotation [[c, s], [-s f, c f]] that makes the Hermitian matrix [[app, apq], [conj(apq), aqq]] diagonal.
template <class T>
struct JacobiRotation {
  double c = 1;
  double s = 0;
  T f = T(1);

  JacobiRotation(double app, double aqq, T apq) {
    const double size = std::abs(apq);
    if (size == 0) return;
    const double tau = (aqq - app) / (2 * size);
    const double t = (tau < 0 ? -1 : 1) / (std::abs(tau) + std::sqrt(1 + tau * tau));
    c = 1 / std::sqrt(1 + t * t);
    s = t * c;
    f = conjugate(apq) / size;
  }
  void turn(Matrix<T>& x, std::int64_t p, std::int64_t q) const { x.turn_columns(p, q, c, s, -s * f, c * f); }
};

/// The factor of magnitude 1 that makes the deciding element of a column real and positive: the first one that has at
/// least 0.7 of the largest magnitude, so that rounding does not choose between equal ones.
template <class T>
T canonical_factor(const Matrix<T>& x, std::int64_t column) {
  double largest = 0;
  for (std::int64_t i = 0; i < x.rows(); ++i) largest = std::max(largest, std::abs(x(i, column)));
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    const double size = std::abs(x(i, column));
    if (size > 0 && size >= 0.7 * largest) return conjugate(x(i, column)) / size;
  }
  return T(1);
}

template <class T>
struct QrFactors {
  Matrix<T> q;  ///< Square.
  Matrix<T> r;  ///< Of the operand's shape.
};
/// By Householder reflections with LAPACK's signs: the diagonal of r is real and has the sign opposite to that of the
/// element it came from.
template <class T>
QrFactors<T> householder_qr(Matrix<T> a);

template <class T>
struct SvdFactors {
  Matrix<T> u;            ///< [m, k], k the smaller extent.
  std::vector<double> s;  ///< Descending.
  Matrix<T> v;            ///< [n, k].
};
/// By one-sided Jacobi rotations; signs by canonical_factor of u's columns.
template <class T>
SvdFactors<T> jacobi_svd(const Matrix<T>& a);

/// `x`, whose columns are orthonormal, with columns added to it until it is square: those of its Householder q.
template <class T>
Matrix<T> completed(const Matrix<T>& x);

}  // namespace lockstep::ops::reference
