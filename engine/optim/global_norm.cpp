#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>

#include "engine/optim/moments.h"

namespace lockstep::optim {
namespace {

/// Powers of two that bring squares of large and of small numbers into the range of a dtype. From `least` on the sum of
/// plain squares has lost nothing that counts; below it no number reaches `limit`.
struct Scales {
  double large, small, least, limit;
};

Scales scales_of(DType dtype) {
  if (dtype == float64) return {0x1p-600, 0x1p650, 0x1p-600, 0x1p-290};
  return {0x1p-80, 0x1p90, 0x1p-80, 0x1p-30};
}

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

/// The norm over all leaves is root * scale; scale is a power of two that keeps the squares below the root in range, 1
/// wherever those of the leaves themselves are. Rank 0.
struct ScaledNorm {
  Array root;
  Array scale;
};

ScaledNorm scaled_norm(const Tree& tree) {
  const std::vector<Array> leaves = tree.leaves();
  const DType dtype = dtype_of_norm(leaves);
  const Scales scales = scales_of(dtype);
  std::vector<Array> parts;
  for (const Array& leaf : leaves) {
    if (is_complex(leaf.dtype())) {
      parts.push_back(convert(real(leaf), dtype));
      parts.push_back(convert(imag(leaf), dtype));
    } else {
      parts.push_back(convert(leaf, dtype));
    }
  }
  if (parts.empty()) return {full({}, 0.0, dtype), full({}, 1.0, dtype)};
  const Array plain = sum_of_squares(parts, [](const Array& x) { return x; });
  const Array large = sum_of_squares(parts, [&](const Array& x) { return x * scales.large; });
  // Held below a limit: 0 times infinity would come back from the sum that is not chosen.
  const Array small =
      sum_of_squares(parts, [&](const Array& x) { return clip(x, -scales.limit, scales.limit) * scales.small; });
  const Array too_large = plain == std::numeric_limits<double>::infinity();
  const Array too_small = plain < scales.least;
  const auto chosen = [&](const Array& of_large, const Array& of_small, const Array& otherwise) {
    return where(too_large, of_large, where(too_small, of_small, otherwise));
  };
  const Array squares = chosen(large, small, plain);
  const auto one = full({}, 1.0, dtype);
  return {sqrt(squares), chosen(full({}, 1 / scales.large, dtype), full({}, 1 / scales.small, dtype), one)};
}

}  // namespace

Array global_norm(const Tree& tree) {
  const ScaledNorm norm = scaled_norm(tree);
  return norm.root * norm.scale;
}

GradientTransformation clip_by_global_norm(double max_norm) {
  if (!(max_norm > 0)) {
    throw ValueError(fmt::format("[clip_by_global_norm] the limit is {}; it must be above 0", max_norm));
  }
  auto update = [max_norm](const Tree& updates, const Tree& state, const Tree&) {
    const ScaledNorm norm = scaled_norm(updates);
    const Array exceeds = norm.root * norm.scale > max_norm;
    // Two factors: the norm itself may be beyond the dtype.
    const Array one = ones_like(norm.root);
    const Array unscale = where(exceeds, one / norm.scale, one), factor = where(exceeds, max_norm / norm.root, one);
    Tree clipped = map(
        [&](const Array& u) {
          const Array x = wide(u);
          return x * convert(unscale, x.dtype()) * convert(factor, x.dtype());
        },
        updates);
    return std::pair(std::move(clipped), state);
  };
  return {[](const Tree&) { return Tree(); }, update};
}

}  // namespace lockstep::optim
