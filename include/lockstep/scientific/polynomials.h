#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

// numpy's polynomials: vectors of coefficients, that of the highest power first. `polyval` of elementwise.h has their
// values. All throw ShapeError for what is no vector.
namespace lockstep {

LOCKSTEP_API Array polyadd(const ArrayOperand& a, const ArrayOperand& b);  ///< The sum, as long as the longer one.
LOCKSTEP_API Array polysub(const ArrayOperand& a, const ArrayOperand& b);  ///< The difference, likewise.
/// The product, of a.size + b.size - 1 coefficients; leading zeros stay. Throws ShapeError for one without coefficients.
LOCKSTEP_API Array polymul(const ArrayOperand& a, const ArrayOperand& b);
/// The derivative of that order, fewer coefficients by so many; one zero of what has none left. Throws ValueError for a
/// negative order.
LOCKSTEP_API Array polyder(const ArrayOperand& p, std::int64_t order = 1);
/// The integral that is 0 at 0, `order` times. Throws ValueError for a negative order.
LOCKSTEP_API Array polyint(const ArrayOperand& p, std::int64_t order = 1);
/// The coefficients of degree + 1 that fit the points (x, y) best, y [n] or [n, k], in the sense of least squares, each
/// equation times a weight if given. Throws ShapeError where shapes do not fit, ValueError for a negative degree.
LOCKSTEP_API Array polyfit(const ArrayOperand& x, const ArrayOperand& y, std::int64_t degree,
                           const std::optional<Array>& weights = std::nullopt);
/// The complex roots of a polynomial whose first coefficient is not 0 (else NaN), in no order: the eigenvalues of its
/// companion matrix. (jax.numpy.roots with strip_zeros=False)
LOCKSTEP_API Array roots(const ArrayOperand& p);
/// The polynomial with these roots, its first coefficient 1.
LOCKSTEP_API Array poly(const ArrayOperand& roots);

}  // namespace lockstep
