#include "engine/optim/global_norm.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep::optim {
namespace {

/// Powers of two that bring squares of large and of small float64 numbers into its range. From `least` on the sum of plain
/// squares has lost nothing that counts; below it no number reaches `limit`.
constexpr double to_large = 0x1p-600, to_small = 0x1p650, least = 0x1p-600, limit = 0x1p-290;

DType dtype_of_norm(const std::vector<Array>& leaves) {
  DType dtype = float32;
  for (const Array& leaf : leaves) dtype = promote(dtype, is_complex(leaf.dtype()) ? real(leaf).dtype() : leaf.dtype());
  return dtype;
}

/// Added leaf after leaf.
template <class Scaled>
Array sum_of_squares(const std::vector<Array>& parts, const Scaled& scaled) {
  Array total;
  for (const Array& part : parts) {
    const Array x = scaled(part);
    const Array squares = sum(x * x);
    total = total.has_value() ? total + squares : squares;
  }
  return total;
}

}  // namespace

ScaledNorm scaled_norm(const Tree& tree) {
  std::vector<Array> parts;
  for (const Array& leaf : tree.leaves()) {
    if (is_complex(leaf.dtype())) {
      parts.push_back(convert(real(leaf), float64));
      parts.push_back(convert(imag(leaf), float64));
    } else {
      parts.push_back(convert(leaf, float64));
    }
  }
  const Array one = full({}, 1.0, float64);
  if (parts.empty()) return {zeros_like(one), one};
  const Array plain = sum_of_squares(parts, [](const Array& x) { return x; });
  // Squares of all that is narrower lie well within float64.
  if (dtype_of_norm(tree.leaves()) != float64) return {sqrt(plain), one};
  const Array large = sum_of_squares(parts, [](const Array& x) { return x * to_large; });
  // Held below a limit: 0 times infinity would come back from the sum that is not chosen.
  const Array small = sum_of_squares(parts, [](const Array& x) { return clip(x, -limit, limit) * to_small; });
  const Array too_large = plain == std::numeric_limits<double>::infinity();
  const Array too_small = plain < least;
  const auto chosen = [&](const Operand& of_large, const Operand& of_small, const Operand& otherwise) {
    return where(too_large, of_large, where(too_small, of_small, otherwise));
  };
  return {sqrt(chosen(large, small, plain)), chosen(1 / to_large, 1 / to_small, one)};
}

Array global_norm(const Tree& tree) {
  const ScaledNorm norm = scaled_norm(tree);
  return convert(norm.root * norm.scale, dtype_of_norm(tree.leaves()));
}

GradientTransformation clip_by_global_norm(double max_norm) {
  if (!(max_norm > 0)) {
    throw ValueError("[clip_by_global_norm] the limit is " + std::to_string(max_norm) + "; it must be above 0");
  }
  auto update = [max_norm](const Tree& updates, const Tree& state, const Tree&) {
    const ScaledNorm norm = scaled_norm(updates);
    const Array exceeds = norm.root * norm.scale > max_norm;
    // Two factors: the norm itself may be beyond the dtype.
    const Array one = ones_like(norm.root);
    const Array unscale = where(exceeds, one / norm.scale, one), factor = where(exceeds, max_norm / norm.root, one);
    Tree clipped = map(
        [&](const Array& u) {
          const DType dtype = promote(u.dtype(), float32);
          const Array x = convert(u, is_complex(dtype) ? complex128 : float64);
          return convert(x * convert(unscale, x.dtype()) * convert(factor, x.dtype()), dtype);
        },
        updates);
    return std::pair(std::move(clipped), state);
  };
  return {[](const Tree&) { return Tree(); }, update};
}

}  // namespace lockstep::optim
