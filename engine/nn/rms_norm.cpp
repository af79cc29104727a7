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

/// 1 / sqrt(mean(x^2) + epsilon) over the last dimension. Where squares overflow, by those of small parts of x, which are
/// summed in the same pass.
Array inverse_rms(const Array& x, double epsilon) {
  const double part = x.dtype() == float64 ? 0x1p-540 : 0x1p-72;
  const Array squares = mean(square(x), Axes{-1}, true), of_parts = mean(square(x * part), Axes{-1}, true);
  const Array fits = is_finite(squares);
  return where(fits, rsqrt(where(fits, squares, 1) + epsilon), rsqrt(where(fits, 1, of_parts)) * part);
}

}  // namespace

Array rms_norm(const Scope& scope, const ArrayOperand& x, const RmsNormOptions& options) {
  const NamedScope named = scope.named();
  check_given(scope, x, options.epsilon);
  const DType dtype = promote(x.dtype(), float32);
  const Array value = convert(x, dtype);
  Array y = value * inverse_rms(value, options.epsilon);
  if (options.scale) {
    const Array gamma = scope.trainable("gamma", {.shape = {x.dim(-1)},
                                                  .dtype = x.dtype(),
                                                  .initializer = initializers::ones(),
                                                  .aggregation = options.aggregation});
    y = y * convert(gamma, dtype);
  }
  return convert(y, x.dtype());
}

}  // namespace lockstep
