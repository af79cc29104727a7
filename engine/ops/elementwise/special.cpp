#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>
#include <lockstep/error.h>

#include "engine/ops/elementwise/slopes.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/pointwise.h"

namespace lockstep::ops {

namespace {

/// Halley's iteration from Winitzki's approximation; the residual is taken on erfc, exact near +-1.
double inverse_erf(double x) {
  const double magnitude = std::abs(x);
  if (std::isnan(x) || magnitude > 1) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (magnitude == 0) return x;
  const double a = 0.147;
  const double logarithm = std::log1p(-magnitude * magnitude);
  const double middle = 2 / (std::numbers::pi * a) + logarithm / 2;
  double y = std::sqrt(std::sqrt(middle * middle - logarithm / a) - middle);
  if (magnitude < 1e-3) y = magnitude * std::sqrt(std::numbers::pi) / 2;
  for (int step = 0; step < 4; ++step) {
    const double residual = magnitude < 0.5 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    const double slope = 2 * std::numbers::inv_sqrtpi * std::exp(-y * y);
    const double newton = residual / slope;
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

Value erf_slope(const Value& x) { return slopes::bell(x) * (2 * std::numbers::inv_sqrtpi); }

/// exp(y^2) sqrt(pi) / 2, with what y^2 loses in rounding; infinite at the ends.
Value erf_inv_slope(const Value& y) {
  return slopes::in_wide(y, [](const Value& wide) {
    const Value square = wide * wide;
    const Value finite = select(is_finite(wide), wide, full_like(wide, 0));
    const Value lost = fma(finite, finite, -(finite * finite));
    return ops::exp(square) * (lost + 1) * (0.5 / std::numbers::inv_sqrtpi);
  });
}

Value zeta_of(const Value& q, double s) { return apply_one(primitives::zeta(), {q}, {{"s", s}}); }

/// I1(x) / x, or for a sign of -1 J1(x) / x, for |x| < 2, by its series in x^2 / 4: the quotient's derivatives would lose
/// their digits.
Value bessel_1_ratio(const Value& x, double sign) {
  const Value quarter = x * x * (sign * 0.25);
  Value sum = full_like(x, 1);
  for (int k = 13; k >= 1; --k) sum = sum * (quarter * (1.0 / (k * (k + 1)))) + 1;
  return sum * 0.5;
}

/// I1'(x) is I0(x) - I1(x) / x.
Value bessel_i1e_tangent(const Value& x, const Value& y, const Value& dx) {
  const auto slope = [&](const Value& wide) {
    const Value value = wide.dtype() == y.dtype() ? y : ops::bessel_i1e(wide);
    const Value size = abs(wide), near = less(size, full_like(wide, 2));
    const Value inner = select(near, wide, full_like(wide, 0)), outer = select(near, full_like(wide, 1), wide);
    const Value ratio = select(near, bessel_1_ratio(inner, 1) * ops::exp(-size), value / outer);
    return ops::bessel_i0e(wide) - value * sign(wide) - ratio;
  };
  return dx * slopes::in_wide(x, slope);
}

/// J1'(x) is J0(x) - J1(x) / x.
Value bessel_j1_tangent(const Value& x, const Value& y, const Value& dx) {
  const auto slope = [&](const Value& wide) {
    const Value value = wide.dtype() == y.dtype() ? y : ops::bessel_j1(wide);
    const Value near = less(abs(wide), full_like(wide, 2));
    const Value inner = select(near, wide, full_like(wide, 0)), outer = select(near, full_like(wide, 1), wide);
    return ops::bessel_j0(wide) - select(near, bessel_1_ratio(inner, -1), value / outer);
  };
  return dx * slopes::in_wide(x, slope);
}

/// exp(x) / x, infinite at infinity; by halves of x, since exp(x) leaves the range before the quotient.
Value expi_slope(const Value& x) {
  return slopes::in_wide(x, [](const Value& wide) {
    const Value half = ops::exp(wide * 0.5);
    return half / select(is_finite(wide), wide, full_like(wide, 1)) * half;
  });
}

/// log(x) / (1 - x), which is -1 at 1 and 0 at infinity. Around 1 by the series of log(x) in w = (x - 1) / (x + 1).
Value spence_slope(const Value& x) {
  return slopes::in_wide(x, [](const Value& wide) {
    const Value one = full_like(wide, 1);
    const Value near = less(abs((wide - one) / (wide + one)), full_like(wide, 1.0 / 3));  // from 1/2 to 2
    const Value inner = select(near, wide, one);
    const Value w = (inner - one) / (inner + one), square = w * w;
    Value sum = full_like(wide, 1.0 / 37);
    for (int k = 35; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    const Value outer = select(near, full_like(wide, 0.25), wide);
    const Value finite = select(is_finite(outer), outer, full_like(wide, 2));
    return select(near, (w - one) * sum, ops::log(finite) / (one - outer));
  });
}

std::vector<ArrayType> zeta_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::floating);
  if (!(context.attrs.get<double>("s") > 1)) {
    throw ValueError(infer::given(context) + "; expected s above 1, where the sum converges; instead pass a larger s");
  }
  return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
}

std::vector<Tangent> zeta_jvp(const JvpContext& context) {
  const auto s = context.attrs.get<double>("s");
  return {*context.tangents[0] * (zeta_of(context.inputs[0], s + 1) * -s)};
}

std::vector<ir::Sample> zeta_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : samples::all_floats) {
    for (const double s : {1.5, 2.0, 7.0}) {
      for (const Shape& shape : samples::small_shapes()) {
        result.push_back({{samples::input(dtype, shape, {0.5, 20})}, {{"s", s}}, {}});
      }
    }
  }
  return result;
}

std::vector<ArrayType> reduce_precision_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::floating);
  const auto exponent_bits = context.attrs.get<std::int64_t>("exponent_bits");
  const auto mantissa_bits = context.attrs.get<std::int64_t>("mantissa_bits");
  if (exponent_bits < 1 || exponent_bits > 11 || mantissa_bits < 0 || mantissa_bits > 52) {
    throw ValueError(
        infer::given(context) +
        "; expected exponent_bits in [1, 11] and mantissa_bits in [0, 52]; instead pass those of a format, "
        "bfloat16 being 8 and 7");
  }
  return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
}

int exponent_bits_of(DType dtype) {
  if (dtype == DType::float16) return 5;
  return dtype == DType::float64 ? 11 : 8;
}

void reduce_precision_reference(const ir::ReferenceContext& context) {
  const auto exponent_bits = static_cast<int>(context.attrs.get<std::int64_t>("exponent_bits"));
  const auto mantissa_bits = static_cast<int>(context.attrs.get<std::int64_t>("mantissa_bits"));
  const int given = exponent_bits_of(context.inputs[0].type.dtype);
  reference::unary<double>(
      [=](double x) { return backend::special::reduce_precision(x, given, exponent_bits, mantissa_bits); })(context);
}

Attrs format(std::int64_t exponent_bits, std::int64_t mantissa_bits) {
  return {{"exponent_bits", exponent_bits}, {"mantissa_bits", mantissa_bits}};
}

/// In float64 the format that changes nothing, where the op is linear as its derivative says.
std::vector<ir::Sample> reduce_precision_samples() {
  std::vector<ir::Sample> result;
  for (const Shape& shape : samples::small_shapes()) {
    result.push_back({{samples::input(DType::float64, shape)}, format(11, 52), {}});
    result.push_back({{samples::input(DType::float32, shape)}, format(8, 7), {}});
    result.push_back({{samples::input(DType::float32, shape, {-40, 40})}, format(3, 2), {}});
    result.push_back({{samples::input(DType::bfloat16, shape)}, format(5, 3), {}});
  }
  return result;
}

}  // namespace

const Primitive& primitives::erf() {
  static const Primitive op = pointwise::of_floats(
      "erf", erf, [](double x) { return std::erf(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * erf_slope(x); }, samples::unary(-3, 3),
      loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::erfc() {
  static const Primitive op = pointwise::of_floats(
      "erfc", erfc, [](double x) { return std::erfc(x); },
      [](const Value& x, const Value&, const Value& dx) { return dx * -erf_slope(x); },
      samples::unary(-3, 3, samples::all_floats), loops::with(pointwise_traits, loops::same<loops::floating>));
  return op;
}

const Primitive& primitives::erf_inv() {
  static const Primitive op = pointwise::of_floats(
      "erf_inv", erf_inv, inverse_erf,
      [](const Value&, const Value& y, const Value& dx) { return dx * erf_inv_slope(y); },
      samples::both(samples::unary(-0.9, 0.9), samples::unary(0.999, 0.9999, {DType::float32})));
  return op;
}

const Primitive& primitives::lgamma() {
  static const Primitive op = pointwise::of_floats(
      "lgamma", lgamma, backend::special::lgamma,
      [](const Value& x, const Value&, const Value& dx) { return dx * ops::digamma(x); },
      samples::both(samples::unary(0.2, 9, samples::all_floats), samples::unary(-2.9, -2.1)));
  return op;
}

const Primitive& primitives::digamma() {
  static const Primitive op = pointwise::of_floats(
      "digamma", digamma, backend::special::digamma,
      [](const Value& x, const Value&, const Value& dx) { return dx * zeta_of(x, 2); },
      samples::both(samples::unary(0.4, 9, samples::all_floats), samples::unary(-2.8, -2.2)));
  return op;
}

const Primitive& primitives::zeta() {
  static const Primitive op{
      .name = "zeta",
      .infer = zeta_infer,
      .derivative = derivative::jvp(zeta_jvp),
      .batch = batch::pointwise(zeta),
      .reference =
          [](const ir::ReferenceContext& context) {
            const auto s = context.attrs.get<double>("s");
            reference::unary<double>([s](double q) { return backend::special::zeta(s, q); })(context);
          },
      .samples = zeta_samples,
      .error_samples = samples::errors({{{{DType::int32, Shape{2}, {}}}, {{"s", 2.0}}, "expected a float dtype", {}},
                                        {{{DType::float32, Shape{2}, {}}}, {{"s", 1.0}}, "expected s above 1", {}}}),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::bessel_i0e() {
  static const Primitive op = pointwise::of_floats(
      "bessel_i0e", bessel_i0e, backend::special::bessel_i0e,
      [](const Value& x, const Value& y, const Value& dx) {
        return dx * slopes::in_wide(x, [&](const Value& wide) {
                 const Value value = wide.dtype() == y.dtype() ? y : ops::bessel_i0e(wide);
                 return ops::bessel_i1e(wide) - ops::sign(wide) * value;
               });
      },
      samples::both(samples::elementwise({{-6, 6, true}}, samples::all_floats), samples::unary(20, 40)));
  return op;
}

const Primitive& primitives::bessel_i1e() {
  static const Primitive op = pointwise::of_floats(
      "bessel_i1e", bessel_i1e, backend::special::bessel_i1e, bessel_i1e_tangent,
      samples::both(samples::elementwise({{-6, 6, true}}, samples::all_floats), samples::unary(20, 40)));
  return op;
}

const Primitive& primitives::bessel_j0() {
  static const Primitive op = pointwise::of_floats(
      "bessel_j0", bessel_j0, backend::special::bessel_j0,
      [](const Value& x, const Value&, const Value& dx) { return dx * -ops::bessel_j1(x); },
      samples::both(samples::elementwise({{-6, 6, true}}, samples::all_floats), samples::unary(20, 40)));
  return op;
}

const Primitive& primitives::bessel_j1() {
  static const Primitive op = pointwise::of_floats(
      "bessel_j1", bessel_j1, backend::special::bessel_j1, bessel_j1_tangent,
      samples::both(samples::elementwise({{-6, 6, true}}, samples::all_floats), samples::unary(20, 40)));
  return op;
}

const Primitive& primitives::exp1() {
  static const Primitive op = pointwise::of_floats(
      "exp1", exp1, backend::special::exp1,
      [](const Value& x, const Value&, const Value& dx) {
        return dx * slopes::in_wide(x, [](const Value& wide) { return -(ops::exp(-wide) / wide); });
      },
      samples::unary(0.2, 8, samples::all_floats));
  return op;
}

const Primitive& primitives::expi() {
  static const Primitive op = pointwise::of_floats(
      "expi", expi, backend::special::expi,
      [](const Value& x, const Value&, const Value& dx) { return dx * expi_slope(x); },
      samples::both(samples::unary(0.2, 6, samples::all_floats), samples::unary(-6, -0.2)));
  return op;
}

const Primitive& primitives::spence() {
  static const Primitive op = pointwise::of_floats(
      "spence", spence, backend::special::spence,
      [](const Value& x, const Value&, const Value& dx) { return dx * spence_slope(x); },
      samples::both(samples::unary(0.1, 6, samples::all_floats), samples::unary(0.9, 1.1)));
  return op;
}

const Primitive& primitives::reduce_precision() {
  static const Primitive op{
      .name = "reduce_precision",
      .infer = reduce_precision_infer,
      .derivative = derivative::linear_in_one(0,
                                              [](const TransposeContext& context, const Value& ct) {
                                                return apply_one(primitives::reduce_precision(), {ct}, context.attrs);
                                              }),
      .batch = batch::pointwise(reduce_precision),
      .reference = reduce_precision_reference,
      .samples = reduce_precision_samples,
      .error_samples =
          samples::errors({{{{DType::int32, Shape{2}, {}}}, format(8, 7), "expected a float dtype", {}},
                           {{{DType::float32, Shape{2}, {}}}, format(0, 7), "expected exponent_bits in [1, 11]", {}},
                           {{{DType::float32, Shape{2}, {}}}, format(8, 53), "mantissa_bits in [0, 52]", {}}}),
      .traits = pointwise_traits,
      .layout = layout::rounding()};
  return op;
}

}  // namespace lockstep::ops
