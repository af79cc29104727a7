#include <numbers>

#include <lockstep/backend/special_functions.h>
#include <lockstep/error.h>

#include "engine/ops/elementwise/slopes.h"
#include "engine/ops/rules/pointwise.h"

// Integrals of elementary functions that are none, and functions of an order.
namespace lockstep::ops {

namespace {

/// The sum of sign^k (2k - 1)!! / (2 x^2)^k over k >= 1, for |x| > 7: what Dawson's integral times 2x has beyond 1, whose
/// difference from 1 would have lost its digits.
Value beyond_one(const Value& x, double sign) {
  const Value step = full_like(x, sign * 0.5) / (x * x);
  Value sum = full_like(x, 1);
  for (int k = 21; k >= 2; --k) sum = sum * (step * (2.0 * k - 1)) + 1;
  return sum * step;
}

/// 1 - 2x y, or for erfcx 2x y - 2 / sqrt(pi).
Value dawsn_slope(const Value& x, const Value& y) {
  const Value near = less(abs(x), full_like(x, 7));
  return select(near, full_like(x, 1) - x * y * 2, -beyond_one(select(near, full_like(x, 7), x), 1));
}
Value erfcx_slope(const Value& x, const Value& y) {
  const Value near = less(x, full_like(x, 7));
  const Value far = beyond_one(select(near, full_like(x, 7), x), -1) * (2 * std::numbers::inv_sqrtpi);
  return select(near, x * y * 2 - full_like(x, 2 * std::numbers::inv_sqrtpi), far);
}

/// sin(x) / x, by its series around 0.
Value sin_ratio(const Value& x) {
  const Value near = less(abs(x), full_like(x, 1));
  const Value inner = select(near, x, full_like(x, 0)), outer = select(near, full_like(x, 1), x);
  const Value square = inner * inner;
  Value sum = full_like(x, 1);
  for (int k = 10; k >= 1; --k) sum = sum * (square * (-1.0 / (2 * k * (2 * k + 1)))) + 1;
  return select(near, sum, ops::sin(outer) / outer);
}

/// f of x and y in float32 for 16-bit floats.
template <class F>
auto tangent(F slope, Value (*self)(const Value&)) {
  return [slope, self](const Value& x, const Value& y, const Value& dx) {
    return dx * slopes::in_wide(
                    x, [&](const Value& wide) { return slope(wide, wide.dtype() == y.dtype() ? y : self(wide)); });
  };
}

/// pi x^2 / 2 less whole turns, with what x^2 loses in rounding.
Value quarter_turns(const Value& x) {
  const Value square = x * x;
  const Value whole = ops::round(square * 0.25) * 4;
  return (square - whole + ops::fma(x, x, -square)) * (std::numbers::pi / 2);
}

std::vector<ArrayType> order_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::floating);
  const auto n = context.attrs.get<std::int64_t>("n");
  if (n < 0 || n > 1000000) {
    throw ValueError(infer::given(context) + "; expected an order n of 0 to 1000000; instead pass one of these");
  }
  return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
}

std::vector<ir::Sample> order_samples(double low, double high) {
  std::vector<ir::Sample> result;
  for (const DType dtype : samples::all_floats) {
    for (const std::int64_t n : {0, 1, 2, 5}) {
      for (const Shape& shape : samples::small_shapes()) {
        result.push_back({{samples::input(dtype, shape, {low, high})}, {{"n", n}}, {}});
      }
    }
  }
  return result;
}

using Getter = const Primitive& (*)();

Value of_order(Getter op, const Value& x, std::int64_t n) { return apply_one(op(), {x}, {{"n", n}}); }

/// An op of an operand and the attribute "n".
template <class F, class Slope>
Primitive with_order(std::string name, Getter self, F f, Slope slope, const samples::Range& range) {
  return {.name = std::move(name),
          .infer = order_infer,
          .derivative = derivative::jvp([slope](const JvpContext& context) -> std::vector<Tangent> {
            return {*context.tangents[0] * slope(context.inputs[0], context.attrs.get<std::int64_t>("n"))};
          }),
          .batch = batch::pointwise(self),
          .reference =
              [f](const ir::ReferenceContext& context) {
                const auto n = context.attrs.get<std::int64_t>("n");
                reference::unary<double>([f, n](double x) { return f(n, x); })(context);
              },
          .samples = [range] { return order_samples(range.low, range.high); },
          .error_samples = samples::errors(
              {{{{DType::int32, Shape{2}, {}}}, {{"n", std::int64_t{2}}}, "expected a float dtype", {}},
               {{{DType::float32, Shape{2}, {}}}, {{"n", std::int64_t{-1}}}, "expected an order n of 0", {}}}),
          .traits = pointwise_traits};
}

}  // namespace

const Primitive& primitives::dawsn() {
  static const Primitive op =
      pointwise::of_floats("dawsn", dawsn, backend::special::dawsn, tangent(dawsn_slope, ops::dawsn),
                           samples::both(samples::unary(-4, 4, samples::all_floats), samples::unary(8, 20)));
  return op;
}

const Primitive& primitives::erfcx() {
  static const Primitive op =
      pointwise::of_floats("erfcx", erfcx, backend::special::erfcx, tangent(erfcx_slope, ops::erfcx),
                           samples::both(samples::unary(-2, 4, samples::all_floats), samples::unary(8, 20)));
  return op;
}

const Primitive& primitives::sin_integral() {
  static const Primitive op = pointwise::of_floats(
      "sin_integral", sin_integral, backend::special::sin_integral,
      [](const Value& x, const Value&, const Value& dx) { return dx * slopes::in_wide(x, sin_ratio); },
      samples::both(samples::unary(-5, 5, samples::all_floats), samples::unary(8, 20)));
  return op;
}

const Primitive& primitives::cos_integral() {
  static const Primitive op = pointwise::of_floats(
      "cos_integral", cos_integral, backend::special::cos_integral,
      [](const Value& x, const Value&, const Value& dx) {
        return dx * slopes::in_wide(x, [](const Value& wide) { return ops::cos(wide) / wide; });
      },
      samples::both(samples::unary(0.3, 5, samples::all_floats), samples::unary(8, 20)));
  return op;
}

const Primitive& primitives::fresnel_s() {
  static const Primitive op = pointwise::of_floats(
      "fresnel_s", fresnel_s, backend::special::fresnel_s,
      [](const Value& x, const Value&, const Value& dx) {
        return dx * slopes::in_wide(x, [](const Value& wide) { return ops::sin(quarter_turns(wide)); });
      },
      samples::both(samples::unary(-2, 2, samples::all_floats), samples::unary(3, 5)));
  return op;
}

const Primitive& primitives::fresnel_c() {
  static const Primitive op = pointwise::of_floats(
      "fresnel_c", fresnel_c, backend::special::fresnel_c,
      [](const Value& x, const Value&, const Value& dx) {
        return dx * slopes::in_wide(x, [](const Value& wide) { return ops::cos(quarter_turns(wide)); });
      },
      samples::both(samples::unary(-2, 2, samples::all_floats), samples::unary(3, 5)));
  return op;
}

const Primitive& primitives::owens_t() {
  static const Primitive op{.name = "owens_t",
                            .infer = infer::same_shape(infer::floating, 2),
                            .derivative = derivative::per_operand(
                                {[](const JvpContext& context, const Value& dh) -> Tangent {
                                   const Value &h = context.inputs[0], &a = context.inputs[1];
                                   const Value bell =
                                       ops::exp(h * h * -0.5) * (0.25 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
                                   return dh * -(bell * ops::erf(a * h * (0.5 * std::numbers::sqrt2)));
                                 },
                                 [](const JvpContext& context, const Value& da) -> Tangent {
                                   const Value &h = context.inputs[0], &a = context.inputs[1];
                                   const Value wide = a * a + 1;
                                   return da * (ops::exp(h * h * wide * -0.5) * (0.5 * std::numbers::inv_pi) / wide);
                                 }}),
                            .batch = batch::pointwise(owens_t),
                            .reference = reference::binary<double>(backend::special::owens_t),
                            .samples = samples::elementwise({{-3, 3, true}, {-3, 3, true}}, samples::all_floats),
                            .error_samples = samples::elementwise_errors(2, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::bessel_jn() {
  static const Primitive op = with_order("bessel_jn", bessel_jn, backend::special::bessel_jn,
                                         [](const Value& x, std::int64_t n) {
                                           if (n == 0) return -ops::bessel_j1(x);
                                           return (of_order(bessel_jn, x, n - 1) - of_order(bessel_jn, x, n + 1)) * 0.5;
                                         },
                                         {-6, 6});
  return op;
}

const Primitive& primitives::expn() {
  static const Primitive op = with_order("expn", expn, backend::special::expn,
                                         [](const Value& x, std::int64_t n) {
                                           if (n > 0) return -of_order(expn, x, n - 1);
                                           return slopes::in_wide(x, [](const Value& wide) {
                                             const Value inverse = full_like(wide, 1) / wide;
                                             return -(ops::exp(-wide) * inverse * (inverse + 1));
                                           });
                                         },
                                         {0.2, 6});
  return op;
}

}  // namespace lockstep::ops
