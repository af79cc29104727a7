#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/ops/elementwise/slopes.h"
#include "engine/ops/rules/pointwise.h"

namespace lockstep::ops {

namespace {

constexpr double third = 1.0 / 3;

std::vector<ArrayType> integer_pow_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::numeric);
  const auto exponent = context.attrs.get<std::int64_t>("exponent");
  if (exponent < 0 && is_integer(context.inputs[0].dtype)) {
    infer::dtype_error(context, "an exponent of 0 or more for integers", "convert(x, float32) first");
  }
  return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
}

std::vector<Tangent> integer_pow_jvp(const JvpContext& context) {
  const auto exponent = context.attrs.get<std::int64_t>("exponent");
  const Value& x = context.inputs[0];
  if (exponent == 0) return {std::nullopt};
  if (exponent == 1) return {context.tangents[0]};
  const Value slope = apply_one(primitives::integer_pow(), {x}, {{"exponent", exponent - 1}});
  return {*context.tangents[0] * (slope * static_cast<double>(exponent))};
}

/// By repeated squaring; integers wrap.
template <class T>
T power_by_squaring(T x, std::int64_t exponent) {
  T result = T(1);
  for (std::int64_t n = exponent; n != 0; n /= 2) {
    if (n % 2 != 0) result = result * x;
    x = x * x;
  }
  if constexpr (!std::is_integral_v<T>) {
    if (exponent < 0) return 1.0 / result;
  }
  return result;
}

void integer_pow_reference(const ir::ReferenceContext& context) {
  const auto exponent = context.attrs.get<std::int64_t>("exponent");
  reference::unary<double, std::int64_t, std::uint64_t, Complex>([exponent](auto x) {
    using T = decltype(x);
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(power_by_squaring(static_cast<std::uint64_t>(x), exponent));
    } else {
      return power_by_squaring(x, exponent);
    }
  })(context);
}

std::vector<ir::Sample> integer_pow_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::complex128, DType::complex64,
                            DType::int32, DType::uint8}) {
    for (const std::int64_t exponent : {-3, -1, 0, 1, 2, 3, 7}) {
      if (exponent < 0 && is_integer(dtype)) continue;
      for (const Shape& shape : samples::small_shapes()) {
        result.push_back({{samples::input(dtype, shape, {0.4, 2})}, {{"exponent", exponent}}, {}});
      }
    }
  }
  result.push_back({{samples::input(DType::int8, Shape{5}, {-9, 9})}, {{"exponent", std::int64_t{5}}}, {}});
  return result;
}

}  // namespace

const Primitive& primitives::sqrt() {
  static const Primitive op = pointwise::of_inexact(
      "sqrt", sqrt, [](auto x) { return std::sqrt(x); },
      [](const Value&, const Value& y, const Value& dx) { return dx * (full_like(y, 0.5) / y); },
      samples::inexact(0.2, 4, samples::all_floats),
      {.pointwise = true, .exact = true, .steps = 5, .in_loops = loops::same<loops::floating>});
  return op;
}

const Primitive& primitives::rsqrt() {
  static const Primitive op = pointwise::of_inexact(
      "rsqrt", rsqrt, [](auto x) { return 1.0 / std::sqrt(x); },
      [](const Value& x, const Value& y, const Value& dx) { return dx * ((y / x) * -0.5); }, samples::inexact(0.2, 4),
      {.pointwise = true, .steps = 5, .in_loops = loops::same<loops::floating>});
  return op;
}

const Primitive& primitives::cbrt() {
  static const Primitive op = pointwise::of_floats(
      "cbrt", cbrt, [](double x) { return std::cbrt(x); },
      [](const Value&, const Value& y, const Value& dx) {
        return dx * slopes::in_wide(y, [](const Value& wide) {
                 const Value inverse = full_like(wide, 1) / wide;  // y^2 may be infinite, and its slope then is
                 return inverse * inverse * third;
               });
      },
      samples::both(samples::unary(0.2, 4, samples::all_floats), samples::unary(-4, -0.2)));
  return op;
}

const Primitive& primitives::integer_pow() {
  static const Primitive op{
      .name = "integer_pow",
      .infer = integer_pow_infer,
      .derivative = derivative::jvp(integer_pow_jvp),
      .batch = batch::pointwise(integer_pow),
      .reference = integer_pow_reference,
      .samples = integer_pow_samples,
      .error_samples = samples::errors(
          {{{{DType::bool_, Shape{2}, {}}}, {{"exponent", std::int64_t{2}}}, "for operand 0", {}},
           {{{DType::int32, Shape{2}, {}}}, {{"exponent", std::int64_t{-1}}}, "an exponent of 0 or more", {}}}),
      .traits = loops::with(pointwise_traits, loops::same<loops::floating>)};
  return op;
}

}  // namespace lockstep::ops
