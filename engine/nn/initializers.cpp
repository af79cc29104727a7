#include <algorithm>
#include <cmath>

#include <lockstep/error.h>
#include <lockstep/initializers.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

namespace lockstep::initializers {
namespace {

struct Fans {
  double in = 1;
  double out = 1;
};

Fans fans(const Shape& shape) {
  if (shape.rank() == 0) return {};
  if (shape.rank() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double window = 1;
  for (int i = 0; i + 2 < shape.rank(); ++i) window *= static_cast<double>(shape[i]);
  return {window * static_cast<double>(shape[shape.rank() - 2]), window * static_cast<double>(shape[shape.rank() - 1])};
}

enum class Fan { in, average };
enum class Distribution { uniform, truncated_normal };

/// Standard deviation of a standard normal cut off at +-2.
constexpr double truncated_stddev = 0.87962566103423978;

Array cut_normal(const Array& key, const Shape& shape, DType dtype, double stddev) {
  return random::truncated_normal(key, -2.0, 2.0, shape, dtype, random::same_on_all) * (stddev / truncated_stddev);
}

Initializer variance_scaling(double scale, Fan mode, Distribution distribution) {
  return [=](const Array& key, const Shape& shape, DType dtype) {
    const Fans fan = fans(shape);
    const double n = mode == Fan::in ? fan.in : (fan.in + fan.out) / 2;
    const double variance = scale / std::max(n, 1.0);
    if (distribution == Distribution::truncated_normal) return cut_normal(key, shape, dtype, std::sqrt(variance));
    const double limit = std::sqrt(3 * variance);
    return random::uniform(key, shape, dtype, -limit, limit, random::same_on_all);
  };
}

}  // namespace

Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }

Initializer constant(double value) {
  return [value](const Array&, const Shape& shape, DType dtype) { return full(shape, value, dtype); };
}

Initializer normal(double stddev) {
  return [stddev](const Array& key, const Shape& shape, DType dtype) {
    return random::normal(key, shape, dtype, random::same_on_all) * stddev;
  };
}

Initializer truncated_normal(double stddev) {
  return [stddev](const Array& key, const Shape& shape, DType dtype) { return cut_normal(key, shape, dtype, stddev); };
}

Initializer uniform(double low, double high) {
  return [=](const Array& key, const Shape& shape, DType dtype) {
    return random::uniform(key, shape, dtype, low, high, random::same_on_all);
  };
}

Initializer orthogonal(double scale) {
  return [scale](const Array& key, const Shape& shape, DType dtype) {
    if (shape.rank() < 2) {
      throw ShapeError("[initializers::orthogonal] the shape is " + to_string(shape) + "; give one of rank 2 or more");
    }
    if (shape.size() == 0) return zeros(shape, dtype);
    const std::int64_t columns = shape[shape.rank() - 1];
    const DType wide = is_narrow_float(dtype) ? float32 : dtype;  // no narrow factorization
    const Array matrix = random::orthogonal(key, shape.size() / columns, {}, wide, columns, random::same_on_all);
    return convert(reshape(matrix, shape.to_vector()) * scale, dtype);
  };
}

Initializer glorot_uniform() { return variance_scaling(1, Fan::average, Distribution::uniform); }
Initializer glorot_normal() { return variance_scaling(1, Fan::average, Distribution::truncated_normal); }
Initializer he_uniform() { return variance_scaling(2, Fan::in, Distribution::uniform); }
Initializer he_normal() { return variance_scaling(2, Fan::in, Distribution::truncated_normal); }
Initializer lecun_uniform() { return variance_scaling(1, Fan::in, Distribution::uniform); }
Initializer lecun_normal() { return variance_scaling(1, Fan::in, Distribution::truncated_normal); }

}  // namespace lockstep::initializers
