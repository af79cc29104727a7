#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

/// Linear algebra as in numpy.linalg and jax.numpy.linalg. Matrices are the last two dimensions, all before them is a
/// batch. What factors or solves takes float32, float64, complex64 and complex128 (integers and bool become float32)
/// and gives NaN for a matrix that has no such result; it throws ShapeError for operands of a wrong rank or for a
/// matrix that must be square and is not, DtypeError for other dtypes. All of it differentiates, any number of times,
/// and batches.
namespace lockstep::linalg {

// ---- factors ---------------------------------------------------------------------------------------------------------

/// The lower triangular l with l l^H = a, or its adjoint. `symmetrize_input` takes (a + a^H) / 2 for a, so that the
/// derivative is symmetric; else the lower triangle alone is read.
LOCKSTEP_API Array cholesky(const ArrayOperand& a, bool upper = false, bool symmetrize_input = true);

/// What cho_factor gives.
struct ChoFactor {
  Array factor;  ///< Lower or upper triangular; 0 elsewhere.
  bool lower = false;
};
/// The factor of a matrix of which one triangle alone is read, and which of the two it is: for cho_solve.
LOCKSTEP_API ChoFactor cho_factor(const ArrayOperand& a, bool lower = false);

/// Factors of a matrix [..., m, n].
struct Qr {
  Array q;  ///< Orthonormal columns.
  Array r;  ///< Upper triangular, signs as LAPACK's.
};
/// a = q r, q of min(m, n) columns, or of m if full_matrices (without derivative unless m <= n).
LOCKSTEP_API Qr qr(const ArrayOperand& a, bool full_matrices = false);

/// Singular values, real, and vectors.
struct Svd {
  Array u;   ///< Left singular vectors as columns.
  Array s;   ///< Descending.
  Array vh;  ///< Right singular vectors, adjoint: as rows.
};
/// a = u diag(s) vh. In each column of u the first element of at least 0.7 of the largest magnitude is real, positive.
/// full_matrices makes u and vh square; only of square matrices these then have a derivative.
LOCKSTEP_API Svd svd(const ArrayOperand& a, bool full_matrices = true);
/// The singular values alone, descending: [..., min(m, n)], real.
LOCKSTEP_API Array svdvals(const ArrayOperand& a);

/// What eigh gives.
struct Eigh {
  Array eigenvalues;   ///< Ascending.
  Array eigenvectors;  ///< Columns, signs as in svd.
};
/// Of a Hermitian matrix. Without `symmetrize_input` one triangle alone is read.
LOCKSTEP_API Eigh eigh(const ArrayOperand& a, bool lower = true, bool symmetrize_input = true);
/// The eigenvalues alone, ascending and real.
LOCKSTEP_API Array eigvalsh(const ArrayOperand& a, bool lower = true, bool symmetrize_input = true);

/// What eig gives, of a [..., n, n].
struct Eig {
  Array eigenvalues;   ///< [..., n], complex, in no order.
  Array eigenvectors;  ///< Columns of length 1, phases as svd's signs.
};
/// Of a square matrix, complex for real ones too, by the QR algorithm in float64. Derivatives are those of matrices
/// whose eigenvalues are apart from each other. A matrix that is not finite, and an iteration that does not end, gives
/// NaN. (Signs and phases are settled here, and their derivatives with them; jax.numpy.linalg.eig has derivatives of
/// eigenvalues alone, once.)
LOCKSTEP_API Eig eig(const ArrayOperand& a);
LOCKSTEP_API Array eigvals(const ArrayOperand& a);  ///< The eigenvalues alone.

/// What lu_factor gives, of a [..., m, n].
struct LuFactor {
  Array lu;           ///< Both factors: l below the diagonal, where its ones are left out, and u.
  Array pivots;       ///< int32: row i was exchanged with row pivots[i].
  Array permutation;  ///< int32: row permutation[i] of a is row i of l u.
};
/// Gaussian elimination with row exchanges.
LOCKSTEP_API LuFactor lu_factor(const ArrayOperand& a);

// ---- systems of equations --------------------------------------------------------------------------------------------
// b is a vector if it has rank 1, else matrices whose batch broadcasts with a's.

/// x with a x = b, by Gaussian elimination.
LOCKSTEP_API Array solve(const ArrayOperand& a, const ArrayOperand& b);
LOCKSTEP_API Array inv(const ArrayOperand& a);  ///< x with a x = 1, by `solve`.
/// As solve, from lu_factor; `transposed` solves a^T x = b.
LOCKSTEP_API Array lu_solve(const LuFactor& factors, const ArrayOperand& b, bool transposed = false);
/// As solve, from cholesky's lower (or upper) factor.
LOCKSTEP_API Array cho_solve(const ArrayOperand& factor, const ArrayOperand& b, bool lower = true);
LOCKSTEP_API Array cho_solve(const ChoFactor& factor, const ArrayOperand& b);  ///< From cho_factor.

/// What solve_triangular reads of a.
struct TriangularOptions {
  bool lower = false;
  bool transposed = false;     ///< a^T x = b
  bool unit_diagonal = false;  ///< Ones in place of the diagonal, which is not read.
};
/// x with a x = b, of one triangle of a.
LOCKSTEP_API Array solve_triangular(const ArrayOperand& a, const ArrayOperand& b,
                                    const TriangularOptions& options = {});

/// x with a x = b, a tridiagonal [..., m, m]: its diagonals below, on and above the main one as [..., m] each, where the
/// first element of `lower` and the last of `upper` are not read; b is [..., m, n] or, of rank 1, a vector. Elimination
/// from row to row without exchanges, for matrices whose diagonal dominates or that are positive definite. Throws
/// ShapeError where shapes do not fit. (jax.lax.linalg.tridiagonal_solve)
LOCKSTEP_API Array tridiagonal_solve(const ArrayOperand& lower, const ArrayOperand& diagonal, const ArrayOperand& upper,
                                     const ArrayOperand& b);

/// The Moore-Penrose inverse, by the singular values above rtol times the largest; 10 max(m, n) eps unless given. Its
/// derivative is that of matrices of constant rank.
LOCKSTEP_API Array pinv(const ArrayOperand& a, std::optional<double> rtol = std::nullopt);

/// What lstsq gives.
struct Lstsq {
  Array x;
  Array residuals;  ///< Sums of squares of b - a x over each column; of no element unless a has full rank and m > n.
  Array rank;       ///< int32
  Array s;          ///< Singular values of a.
};
/// The x of least norm among those that make the norm of b - a x least; a is one matrix, b a vector or a matrix.
/// Singular values up to rcond times the largest count as 0; eps max(m, n) unless given. `residuals` is NaN where the
/// rank, which only data tells, is not full.
LOCKSTEP_API Lstsq lstsq(const ArrayOperand& a, const ArrayOperand& b, std::optional<double> rcond = std::nullopt);

// ---- numbers of a matrix ---------------------------------------------------------------------------------------------

/// The determinant, by Gaussian elimination, of up to three rows by cofactors; 1 of none. Its first two derivatives are
/// those of singular matrices of any rank too; so is the third of up to three rows, and of more where no two singular
/// values are equal.
LOCKSTEP_API Array det(const ArrayOperand& a);
/// A determinant as sign * exp(logabsdet).
struct Slogdet {
  Array sign;       ///< 0, 1 or -1; of complex matrices on the unit circle.
  Array logabsdet;  ///< Real; -inf of a singular matrix.
};
/// By Gaussian elimination: sign 0 and -inf of a singular matrix, 1 and 0 of one without rows.
LOCKSTEP_API Slogdet slogdet(const ArrayOperand& a);

/// Which norm: nothing (2 of vectors, Frobenius of matrices), a number (infinities too), "fro" or "nuc".
class LOCKSTEP_API NormOrder {
 public:
  NormOrder();
  NormOrder(const NormOrder& other);
  NormOrder(NormOrder&& other) noexcept;
  NormOrder& operator=(const NormOrder& other);
  NormOrder& operator=(NormOrder&& other) noexcept;
  ~NormOrder();
  template <class T>
  requires std::is_arithmetic_v<T> NormOrder(T number)
      : NormOrder(static_cast<double>(number), Number()) {}  // NOLINT: implicit
  NormOrder(const char* name);                               // NOLINT: implicit by design

  const std::optional<double>& number() const { return number_; }
  const std::string& name() const { return name_; }

 private:
  struct Number {};
  NormOrder(double number, Number tag);

  std::optional<double> number_;
  std::string name_;
};
/// Which norm, and of what.
struct NormOptions {
  NormOrder order = {};
  /// One axis: vectors along it. Two: matrices. None: the whole array, which an order takes as a vector or a matrix.
  OptionalAxes axes = {};
  bool keep = false;  ///< Whether the axes stay, with extent 1.
};
/// Vectors: the p-norm, the largest (inf) or smallest (-inf) magnitude, the count of what is not zero (0). Matrices:
/// "fro", "nuc" (sum of singular values), 1 and inf (largest sum of magnitudes of a column, a row), 2 (largest singular
/// value), and -1, -inf, -2 for the smallest. Nothing overflows or vanishes on the way to a p-norm or "fro", whose
/// derivative at zeros is taken as 0. Throws ValueError for another order, ShapeError for another number of axes.
LOCKSTEP_API Array norm(const ArrayOperand& x, const NormOptions& options = {});

/// norm(a) norm(inv(a)); of no order or 2 and -2 by singular values, also where a is not square.
LOCKSTEP_API Array cond(const ArrayOperand& a, const NormOrder& order = {});
/// Singular values above rtol times the largest, int32; max(m, n) eps unless given.
LOCKSTEP_API Array matrix_rank(const ArrayOperand& a, std::optional<double> rtol = std::nullopt);
/// The sum of `diagonal`; bool and narrow integers add up in 32 bits.
LOCKSTEP_API Array trace(const ArrayOperand& x, std::int64_t offset = 0, std::int64_t axis1 = 0,
                         std::int64_t axis2 = 1);

// ---- functions of a matrix, products ---------------------------------------------------------------------------------

/// Negative powers are those of the inverse; without it, integers stay integers.
LOCKSTEP_API Array matrix_power(const ArrayOperand& a, std::int64_t power);
/// By scaling, a Pade approximant and squaring (Higham, 2005), up to 16 times: a matrix of larger norm gives NaN.
LOCKSTEP_API Array expm(const ArrayOperand& a);

/// The root with eigenvalues right of 0, s s = a, by Denman and Beavers' iteration scaled by determinants (Higham,
/// Functions of Matrices, 2008, 6.29). A real matrix gives a real root, NaN where it has none: convert it to complex. A
/// singular matrix gives NaN.
LOCKSTEP_API Array sqrtm(const ArrayOperand& a);

/// The product of all, in the order that multiplies least; the first and the last may be vectors.
LOCKSTEP_API Array multi_dot(const ArrayOperands& arrays);
/// numpy.dot: sums of products over the last axis of a and the last but one of b (the only one of a vector); a scalar
/// multiplies.
LOCKSTEP_API Array dot(const ArrayOperand& a, const ArrayOperand& b);
/// Matrices [..., m, n] times vectors [..., n]; batches broadcast.
LOCKSTEP_API Array matvec(const ArrayOperand& matrices, const ArrayOperand& vectors);
/// Vectors [..., m], conjugated, times matrices [..., m, n].
LOCKSTEP_API Array vecmat(const ArrayOperand& vectors, const ArrayOperand& matrices);
/// Of vectors of 3 elements (or 2, those with a third of 0) along an axis.
LOCKSTEP_API Array cross(const ArrayOperand& a, const ArrayOperand& b, std::int64_t axis = -1);
/// Products of all pairs of elements, [a.size, b.size].
LOCKSTEP_API Array outer(const ArrayOperand& a, const ArrayOperand& b);
/// Sums of products over the last axes.
LOCKSTEP_API Array inner(const ArrayOperand& a, const ArrayOperand& b);
/// Kronecker's product: each element of a times b; the last dimensions correspond, extents multiply.
LOCKSTEP_API Array kron(const ArrayOperand& a, const ArrayOperand& b);
/// Summed over the last `axes` dimensions of a and as many first ones of b; integers stay integers.
LOCKSTEP_API Array tensordot(const ArrayOperand& a, const ArrayOperand& b, std::int64_t axes = 2);
/// Summed over pairs of dimensions, those of a first. Throws ShapeError where extents or numbers differ.
LOCKSTEP_API Array tensordot(const ArrayOperand& a, const ArrayOperand& b, const std::pair<Axes, Axes>& axes);
/// The sum of products of both flattened, a conjugated. Throws ShapeError for different sizes.
LOCKSTEP_API Array vdot(const ArrayOperand& a, const ArrayOperand& b);

// ---- diagonals and triangles, of any dtype ---------------------------------------------------------------------------

/// Elements (i, i + offset) of two axes, along a new last axis.
LOCKSTEP_API Array diagonal(const ArrayOperand& x, std::int64_t offset = 0, std::int64_t axis1 = 0,
                            std::int64_t axis2 = 1);
/// Of a vector the matrix with that diagonal, of a matrix its diagonal.
LOCKSTEP_API Array diag(const ArrayOperand& x, std::int64_t offset = 0);
/// The matrix with x, flattened, as a diagonal.
LOCKSTEP_API Array diagflat(const ArrayOperand& x, std::int64_t offset = 0);
/// Powers of a vector's elements as columns, from the highest down to 0, or ascending; as many as elements unless
/// given.
LOCKSTEP_API Array vander(const ArrayOperand& x, const std::optional<std::int64_t>& columns = std::nullopt,
                          bool increasing = false);
/// Zeros above diagonal `k` (0: the main one, above 0: right of it) of the last two dimensions. Throws ShapeError below
/// rank 2.
LOCKSTEP_API Array tril(const ArrayOperand& x, std::int64_t k = 0);
LOCKSTEP_API Array triu(const ArrayOperand& x, std::int64_t k = 0);  ///< Zeros below it.

}  // namespace lockstep::linalg
