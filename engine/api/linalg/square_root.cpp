#include <cmath>
#include <limits>
#include <utility>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>

#include "engine/api/linalg/matrices.h"

namespace lockstep::linalg {

namespace {

/// Root and product of Denman and Beavers' iteration in product form; the latter goes to 1.
using Pair = std::pair<Array, Array>;

Pair next(const Array& x, const Array& m, const Array& scale) {
  const Array inverse = inv(m) / square(scale), one = api::identity_of(m);
  return {(x * scale + matmul(x * scale, inverse)) * 0.5, one * 0.5 + (m * square(scale) + inverse) * 0.25};
}

/// The first rounds are scaled, so that eigenvalues of all sizes come near to 1; the last ones converge quadratically.
/// What the scale is does not matter to the root, so that it has no derivative.
Array root_of(const Array& a) {
  constexpr int scaled = 9, plain = 6;
  const auto n = static_cast<double>(a.dim(-1));
  const auto scaled_round = [&](const Array&, const Pair& p) {
    const Array scale = exp(slogdet(stop_gradient(p.second)).logabsdet * (-0.5 / n));
    return next(p.first, p.second, expand_dims(expand_dims(scale, -1), -1));
  };
  const auto round = [](const Array&, const Pair& p) {
    return next(p.first, p.second, ones({}, real(p.first).dtype()));
  };
  return fori_loop(0, plain, round, fori_loop(0, scaled, scaled_round, Pair(a, a))).first;
}

}  // namespace

Array sqrtm(const ArrayOperand& a) {
  const Array matrix = api::square_matrices("linalg.sqrtm", a);
  if (matrix.size() == 0) return matrix;
  const Array root = root_of(matrix);
  const Axes both = {-2, -1};
  const Array error = max(abs(stop_gradient(matmul(root, root) - matrix)), both, true);
  const Array size = square(max(abs(stop_gradient(root)), both, true)) * static_cast<double>(matrix.dim(-1));
  const double room = std::sqrt(api::epsilon(matrix.dtype()));
  return where(error <= size * room, root, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace lockstep::linalg
