// Norms whose squares neither overflow nor vanish.
#include "engine/optim/scaled_norm.h"

#include <functional>
#include <limits>

#include <lockstep/elementwise.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>

#include "engine/optim/moments.h"

namespace lockstep::optim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

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

/// The numbers of the leaves, of complex ones the real and the imaginary parts.
std::vector<Array> real_parts(const std::vector<Array>& leaves, DType dtype) {
  std::vector<Array> parts;
  for (const Array& leaf : leaves) {
    if (is_complex(leaf.dtype())) {
      parts.push_back(convert(real(leaf), dtype));
      parts.push_back(convert(imag(leaf), dtype));
    } else {
      parts.push_back(convert(leaf, dtype));
    }
  }
  return parts;
}

using Reduction = std::function<Array(const Array&)>;

/// Added part after part.
template <class Scaled>
Array reduced_squares(const std::vector<Array>& parts, const Reduction& reduce, const Scaled& scaled) {
  Array total;
  for (const Array& part : parts) {
    const Array x = scaled(part);
    const Array squares = reduce(x * x);
    total = total.has_value() ? total + squares : squares;
  }
  return total;
}

ScaledNorm scaled_root(const std::vector<Array>& leaves, const Reduction& reduce) {
  const DType dtype = dtype_of_norm(leaves);
  const Scales scales = scales_of(dtype);
  const std::vector<Array> parts = real_parts(leaves, dtype);
  if (parts.empty()) return {full({}, 0.0, dtype), full({}, 1.0, dtype)};
  const Array plain = reduced_squares(parts, reduce, [](const Array& x) { return x; });
  const Array large = reduced_squares(parts, reduce, [&](const Array& x) { return x * scales.large; });
  // Held below a limit: 0 times infinity would come back from the sum that is not chosen.
  const Array small = reduced_squares(
      parts, reduce, [&](const Array& x) { return clip(x, -scales.limit, scales.limit) * scales.small; });
  const Array too_large = plain == infinity;
  const Array too_small = plain < scales.least;
  const auto chosen = [&](const Array& of_large, const Array& of_small, const Array& otherwise) {
    return where(too_large, of_large, where(too_small, of_small, otherwise));
  };
  const auto number = [&](double x) { return full({}, x, dtype); };
  return {sqrt(chosen(large, small, plain)), chosen(number(1 / scales.large), number(1 / scales.small), number(1))};
}

}  // namespace

Array ScaledNorm::value() const { return root * scale; }

ScaledNorm scaled_norm(const Tree& tree) {
  return scaled_root(tree.leaves(), [](const Array& x) { return sum(x); });
}

ScaledNorm scaled_norm(const Array& leaf) {
  return scaled_root({leaf}, [](const Array& x) { return sum(x); });
}

ScaledNorm scaled_norm(const Array& leaf, const std::vector<std::int64_t>& dimensions) {
  return scaled_root({leaf}, [&](const Array& x) { return sum(x, dimensions, true); });
}

ScaledNorm scaled_rms(const Array& leaf) {
  return scaled_root({leaf}, [](const Array& x) { return mean(x); });
}

Array wide_mean_of_squares(const Array& x, std::int64_t dimension) {
  const double large = scales_of(x.dtype()).large;
  const Axes axes{dimension};
  const Array plain = convert(mean(x * x, axes), float64);
  if (x.dtype() == float64) return plain;
  const Array scaled = x * large;
  return where(plain == infinity, convert(mean(scaled * scaled, axes), float64) * (1 / (large * large)), plain);
}

}  // namespace lockstep::optim
