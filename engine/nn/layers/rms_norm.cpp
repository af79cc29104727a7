#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/reductions.h>

namespace lockstep {
namespace {

void check_given(const Scope& scope, const Array& x, double epsilon) {
  if (x.ndim() < 1 || !is_float(x.dtype())) {
    throw ShapeError(
        fmt::format("[rms_norm '{}'] the input is {}; give floats [..., C]", scope.path(), to_string(x.type())));
  }
  if (!(epsilon >= 0)) {
    throw ValueError(fmt::format("[rms_norm '{}'] epsilon is {}; it must not be negative", scope.path(), epsilon));
  }
}

/// x / sqrt(mean(x^2) + epsilon) over the last dimension. Rows whose squares overflow are scaled, by a power of two;
/// their sums are made in the same pass.
Array divided_by_rms(const Array& x, double epsilon) {
  const double part = x.dtype() == float64 ? 0x1p-540 : 0x1p-72;
  const Array scaled = x * part;
  // Products: the derivative of a square would take 2 x, which may be infinite where nothing comes of it.
  const Array squares = mean(x * x, Axes{-1}, true), of_scaled = mean(scaled * scaled, Axes{-1}, true);
  const Array fits = is_finite(squares);
  return where(fits, x, scaled) * rsqrt(where(fits, squares + epsilon, of_scaled));
}

}  // namespace

Array rms_norm(const Scope& scope, const ArrayOperand& given, const RmsNormOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  check_given(scope, x, options.epsilon);
  const DType dtype = promote(x.dtype(), float32);
  const Array value = convert(x, dtype);
  Array y = divided_by_rms(value, options.epsilon);
  if (options.scale) {
    const Array gamma = scope.trainable("gamma", {.shape = {x.dim(-1)},
                                                  .dtype = x.dtype(),
                                                  .initializer = initializers::ones(),
                                                  .aggregation = options.aggregation,
                                                  .cast = false});
    y = y * convert(gamma, dtype);
  }
  return convert(y, x.dtype());
}

}  // namespace lockstep
