#include <string>

#include <fmt/format.h>

#include <lockstep/arithmetic.h>
#include <lockstep/error.h>
#include <lockstep/layers_dense.h>
#include <lockstep/layers_normalization.h>
#include <lockstep/ops.h>

namespace lockstep {
namespace {

/// [all but the last merged, out]
Array as_matrix(std::string_view of, const Scope& scope, const Array& kernel) {
  if (kernel.ndim() < 2 || !is_float(kernel.dtype())) {
    throw ShapeError(fmt::format("[{} '{}'] the kernel is {}; give floats [..., out] of rank 2 or more", of,
                                 scope.path(), to_string(kernel.type())));
  }
  return reshape(kernel, {-1, kernel.dim(-1)});
}

void check_epsilon(std::string_view of, const Scope& scope, double epsilon) {
  if (epsilon >= 0) return;
  throw ValueError(fmt::format("[{} '{}'] epsilon is {}; it must not be negative", of, scope.path(), epsilon));
}

std::vector<std::int64_t> dims_of(const Array& x) { return {x.shape().dims().begin(), x.shape().dims().end()}; }

/// A power of two of the size of the largest magnitudes along the axes, which stay; constant to derivatives.
Array scale_of(const Array& x, const Axes& axes) {
  if (x.size() == 0) return full({}, 1.0, x.dtype());
  const Array largest = stop_gradient(max(abs(x), axes, true));
  const Array some = is_finite(largest) & (largest > 0);
  return where(some, ldexp(ones_like(largest), frexp(where(some, largest, 1)).second - 1), 1);
}

Array unit(const Array& v, double epsilon) { return v / maximum(sqrt(sum(square(v))), epsilon); }

}  // namespace

Array spectral_norm(const Scope& scope, const ArrayOperand& kernel, const SpectralNormOptions& options) {
  const Array matrix = as_matrix("spectral_norm", scope, kernel);
  check_epsilon("spectral_norm", scope, options.epsilon);
  if (options.iterations < 1) {
    throw ValueError(
        fmt::format("[spectral_norm '{}'] iterations is {}; it must be at least 1", scope.path(), options.iterations));
  }
  const DType dtype = promote(kernel.dtype(), float32);
  // Relative to the largest element, which changes no result: squares of large and of small kernels stay in range.
  const Array whole = convert(matrix, dtype);
  const Array w = whole / scale_of(whole, {0, 1}), still = stop_gradient(w);
  Array u = scope.non_trainable("u", {.shape = {w.dim(1)}, .dtype = dtype, .initializer = initializers::normal(1)});
  Array v = unit(matmul(still, u), options.epsilon);
  if (scope.training()) {
    for (std::int64_t i = 0; i < options.iterations; ++i) {
      v = unit(matmul(still, u), options.epsilon);
      u = unit(matmul(v, still), options.epsilon);
    }
    scope.assign("u", u);
  } else {
    u = unit(u, options.epsilon);
  }
  const Array largest = sum(v * matmul(w, u));
  return convert(reshape(w / largest, dims_of(kernel)), kernel.dtype());
}

Array weight_norm(const Scope& scope, const ArrayOperand& kernel, const WeightNormOptions& options) {
  const Array matrix = as_matrix("weight_norm", scope, kernel);
  check_epsilon("weight_norm", scope, options.epsilon);
  const Array scale = scope.trainable("scale", {.shape = {kernel.dim(-1)},
                                                .dtype = kernel.dtype(),
                                                .initializer = initializers::ones(),
                                                .aggregation = options.aggregation});
  const DType dtype = promote(kernel.dtype(), float32);
  // Relative to each vector's largest element, so that squares of large kernels stay in range.
  const Array whole = convert(matrix, dtype), largest = scale_of(whole, {0});
  const Array w = whole / largest;
  const Array factor = rsqrt(sum(square(w), Axes{0}, true) + options.epsilon / square(largest)) * convert(scale, dtype);
  return convert(reshape(w * factor, dims_of(kernel)), kernel.dtype());
}

Array lora(const Scope& scope, const ArrayOperand& kernel, const LoraOptions& options) {
  const Array matrix = as_matrix("lora", scope, kernel);
  if (options.rank < 1) {
    throw ValueError(fmt::format("[lora '{}'] rank is {}; it must be at least 1", scope.path(), options.rank));
  }
  const Array a = scope.trainable("lora_a", {.shape = {matrix.dim(0), options.rank},
                                             .dtype = kernel.dtype(),
                                             .initializer = initializers::he_uniform(),
                                             .aggregation = options.aggregation});
  const Array b = scope.trainable(
      "lora_b", {.shape = {options.rank, matrix.dim(1)}, .dtype = kernel.dtype(), .aggregation = options.aggregation});
  const double scale = options.alpha / static_cast<double>(options.rank);
  return stop_gradient(kernel) + reshape(scale * matmul(a, b), dims_of(kernel));
}

}  // namespace lockstep
