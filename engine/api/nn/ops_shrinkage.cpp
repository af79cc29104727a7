#include <limits>

#include <lockstep/activations.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"

// Activations that leave small elements out.
namespace lockstep {
Array hard_shrink(const ArrayOperand& x, double threshold) {
  const Array value = api::as_inexact(x);
  return where(abs(value) > threshold, value, 0);
}

Array soft_shrink(const ArrayOperand& x, double threshold) {
  const Array value = api::as_inexact(x);
  return where(value > threshold, value - threshold, where(value < -threshold, value + threshold, 0));
}

Array tanh_shrink(const ArrayOperand& x) {
  const DType dtype = api::inexact(x.dtype());
  const Array value = convert(x, api::widened(dtype));
  return convert(value - tanh(value), dtype);
}

Array sparsemax(const ArrayOperand& x, std::int64_t axis) {
  const DType dtype = api::inexact(x.dtype());
  const Array given = moveaxis(convert(x, api::widened(dtype)), axis, -1);
  // Only differences count. Next to an element of 1e9 the 1 below would be lost, and with it all of the result.
  const Array peak = stop_gradient(api::largest(given, {given.ndim() - 1}, true));
  const Array value = given - peak;
  const Array falling = sort(stop_gradient(value), -1, true);
  const Array counts = convert(arange(value.dim(-1)) + 1, value.dtype());
  const Array among = 1 + counts * falling > cumsum(falling, -1);
  const Array least =
      api::smallest(where(among, falling, std::numeric_limits<double>::infinity()), {given.ndim() - 1}, true);
  const Array held = value >= least;
  const Array above = sum(where(held, value, 0), Axes{-1}, true) - 1;
  const Array threshold = above / sum(convert(held, value.dtype()), Axes{-1}, true);
  const Array otherwise = peak - peak;  // 0, and NaN where there is no finite largest one
  return convert(moveaxis(where(held, value - threshold, otherwise), -1, axis), dtype);
}

}  // namespace lockstep
