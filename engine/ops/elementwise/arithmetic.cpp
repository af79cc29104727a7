#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

using reference::binary;
using reference::unary;

/// Integers wrap: they are computed as uint64_t.
template <class T>
using Wrapping = std::conditional_t<std::is_same_v<T, std::int64_t>, std::uint64_t, T>;

template <class T>
T negative(T x) {
  return static_cast<T>(Wrapping<T>{} - static_cast<Wrapping<T>>(x));
}

/// Of a complex number, its part along the number, x conj(sign(x)) being |x|.
Value abs_tangent(const Value& x, const Value&, const Value& dx) {
  return is_complex(x.dtype()) ? real(dx * conj(sign(x))) : dx * sign(x);
}

/// A complex number's sign turns with the tangent's part across the number; at 0 there is none.
std::vector<Tangent> sign_jvp(const JvpContext& context) {
  const Value &x = context.inputs[0], &y = context.outputs[0];
  if (!is_complex(x.dtype())) return {std::nullopt};
  const Value magnitude = abs(x);
  const Value none = equal(magnitude, full_like(magnitude, 0));
  const Value turn = imag(*context.tangents[0] * conj(y)) / select(none, full_like(magnitude, 1), magnitude);
  return {y * complex(full_like(turn, 0), turn)};
}

template <class T>
auto magnitude_of(T x) {
  if constexpr (std::is_integral_v<T>) {
    return std::is_signed_v<T> && x < T{} ? negative(x) : x;
  } else {
    return std::abs(x);
  }
}

template <class T>
T sign_of(T x) {
  const T zero{};
  if (x == zero || x != x) return x;
  if constexpr (std::is_same_v<T, Complex>) {
    return x / std::abs(x);
  } else {
    return x < zero ? negative(T{1}) : T{1};
  }
}

Tangent same(const JvpContext&, const Value& tangent) { return tangent; }
Tangent negated_tangent(const JvpContext&, const Value& tangent) { return -tangent; }

std::vector<Tangent> div_transpose(const TransposeContext& context) {
  return {*context.cotangents[0] / *context.inputs[1], std::nullopt};
}

derivative::Derivative div_derivative() {
  derivative::Derivative result = derivative::per_operand(
      {[](const JvpContext& context, const Value& da) -> Tangent { return da / context.inputs[1]; },
       [](const JvpContext& context, const Value& db) -> Tangent {
         return -(db * (context.outputs[0] / context.inputs[1]));
       }});
  result.transpose = div_transpose;
  result.linear_in = {0};
  return result;
}

/// Towards zero. By zero: all bits set, as XLA defines it (the smallest integer by -1 wraps).
template <class T>
T quotient(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return static_cast<T>(-1);
    if (b == static_cast<T>(-1) && std::is_signed_v<T>) return negative(a);
  }
  return a / b;
}

/// The sign of `a`, as fmod. By zero: `a` for integers, NaN for floats.
template <class T>
T truncated_remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return a;
    if (b == static_cast<T>(-1) && std::is_signed_v<T>) return 0;
    return a % b;
  } else {
    return std::fmod(a, b);
  }
}

Tangent rem_divisor(const JvpContext& context, const Value& db) {
  const Value ratio = context.inputs[0] / context.inputs[1];
  return -(db * (sign(ratio) * floor(abs(ratio))));
}

samples::Samples numeric_samples() {
  return samples::both(
      samples::elementwise({{-2, 2}, {-2, 2}}, samples::all_floats),
      samples::both(samples::elementwise({{-9, 9}, {-9, 9}}, {DType::int32, DType::int64, DType::int8}),
                    samples::elementwise({{0, 200}, {0, 200}}, {DType::uint8, DType::uint32})));
}

/// Float divisors away from zero; integer ones with zeros among them.
samples::Samples quotient_samples() {
  return samples::both(samples::elementwise({{-2, 2}, {0.5, 2}}, samples::all_floats),
                       samples::both(samples::elementwise({{-20, 20}, {-3, 3}}, {DType::int32, DType::int64}),
                                     samples::elementwise({{0, 200}, {0, 3}}, {DType::uint8, DType::uint32})));
}

samples::Samples complex_samples(double low, double high) {
  return samples::elementwise({{-2, 2}, {low, high}}, {DType::complex128, DType::complex64});
}

}  // namespace

const Primitive& primitives::neg() {
  static const Primitive op{
      .name = "neg",
      .infer = infer::same_shape(infer::numeric),
      .derivative = derivative::linear_in_one(0, [](const TransposeContext&, const Value& ct) { return -ct; }),
      .batch = batch::pointwise(neg),
      .reference = unary<double, std::int64_t, std::uint64_t, Complex>([](auto x) {
        if constexpr (std::is_integral_v<decltype(x)>) {
          return negative(x);
        } else {
          return -x;
        }
      }),
      .samples = samples::both(samples::unary(-3, 3, samples::all_floats),
                               samples::unary(0, 9, {DType::int32, DType::uint8, DType::complex64, DType::complex128})),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::bool_),
      .traits = loops::with(exact_traits, loops::same<loops::floating | loops::word>),
      .equal_to = algebra::involution(neg)};
  return op;
}

const Primitive& primitives::abs() {
  static const Primitive op{
      .name = "abs",
      .infer = infer::unary_to_part(infer::numeric),
      .derivative = derivative::unary(abs_tangent),
      .batch = batch::pointwise(abs),
      .reference = unary<double, std::int64_t, std::uint64_t, Complex>([](auto x) { return magnitude_of(x); }),
      .samples = samples::both(samples::both(samples::elementwise({{-3, 3, true}}, samples::all_floats),
                                             samples::unary(0.2, 2, samples::complexes)),
                               samples::both(samples::unary(-9, 9, {DType::int32, DType::int64, DType::int8}),
                                             samples::unary(0, 200, {DType::uint8}))),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::bool_),
      .traits = loops::with(exact_traits, loops::same<loops::floating>)};
  return op;
}

const Primitive& primitives::sign() {
  static const Primitive op{
      .name = "sign",
      .infer = infer::same_shape(infer::numeric),
      .derivative = derivative::jvp(sign_jvp),
      .batch = batch::pointwise(sign),
      .reference = unary<double, std::int64_t, std::uint64_t, Complex>([](auto x) { return sign_of(x); }),
      .samples = samples::both(samples::both(samples::elementwise({{-3, 3, true}}, samples::all_floats),
                                             samples::unary(0.2, 2, samples::complexes)),
                               samples::both(samples::unary(-2, 3, {DType::int32, DType::int64, DType::int8}),
                                             samples::unary(0, 3, {DType::uint8}))),
      .error_samples = samples::elementwise_errors(1, DType::float32, DType::bool_),
      .traits = loops::with(exact_traits, loops::same<loops::floating>)};
  return op;
}

const Primitive& primitives::add() {
  static const Primitive op{.name = "add",
                            .infer = infer::same_shape(infer::numeric, 2),
                            .derivative = derivative::linear(
                                [](const TransposeContext& context) -> std::vector<Tangent> {
                                  return {context.cotangents[0], context.cotangents[0]};
                                },
                                {}, derivative::sum_of({same, same})),
                            .batch = batch::pointwise(add),
                            .reference = binary<double, std::int64_t, std::uint64_t, Complex>([](auto a, auto b) {
                              using T = decltype(a);
                              return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
                            }),
                            .samples = samples::both(numeric_samples(), complex_samples(-2, 2)),
                            .error_samples = samples::elementwise_errors(2, DType::float32, DType::bool_),
                            .traits = loops::with(exact_traits, loops::same<loops::floating | loops::word>),
                            .of_truths = bitwise_or};
  return op;
}

const Primitive& primitives::sub() {
  static const Primitive op{.name = "sub",
                            .infer = infer::same_shape(infer::numeric, 2),
                            .derivative = derivative::linear(
                                [](const TransposeContext& context) -> std::vector<Tangent> {
                                  return {context.cotangents[0], -*context.cotangents[0]};
                                },
                                {}, derivative::sum_of({same, negated_tangent})),
                            .batch = batch::pointwise(sub),
                            .reference = binary<double, std::int64_t, std::uint64_t, Complex>([](auto a, auto b) {
                              using T = decltype(a);
                              return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
                            }),
                            .samples = samples::both(numeric_samples(), complex_samples(-2, 2)),
                            .error_samples = samples::elementwise_errors(2, DType::float32, DType::bool_),
                            .traits = loops::with(exact_traits, loops::same<loops::floating | loops::word>)};
  return op;
}

const Primitive& primitives::mul() {
  const auto times = [](const TransposeContext&, const Value& ct, const Value& other) { return ct * other; };
  static const Primitive op{.name = "mul",
                            .infer = infer::same_shape(infer::numeric, 2),
                            .derivative = derivative::bilinear(times, times),
                            .batch = batch::pointwise(mul),
                            .reference = binary<double, std::int64_t, std::uint64_t, Complex>([](auto a, auto b) {
                              using T = decltype(a);
                              return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
                            }),
                            .samples = samples::both(numeric_samples(), complex_samples(-2, 2)),
                            .error_samples = samples::elementwise_errors(2, DType::float32, DType::bool_),
                            .traits = loops::with(exact_traits, loops::same<loops::floating | loops::word>),
                            .of_truths = bitwise_and,
                            .equal_to = algebra::neutral(1, {1, 0})};
  return op;
}

const Primitive& primitives::div() {
  static const Primitive op{
      .name = "div",
      .infer = infer::same_shape(infer::numeric, 2),
      .derivative = div_derivative(),
      .batch = batch::pointwise(div),
      .reference = binary<double, std::int64_t, std::uint64_t, Complex>([](auto a, auto b) { return quotient(a, b); }),
      .samples = samples::both(quotient_samples(), complex_samples(0.5, 2)),
      .error_samples = samples::elementwise_errors(2, DType::float32, DType::bool_),
      .traits = {.pointwise = true, .exact = true, .steps = 5, .in_loops = loops::same<loops::floating>},
      .equal_to = algebra::neutral(1, {1})};
  return op;
}

const Primitive& primitives::rem() {
  static const Primitive op{
      .name = "rem",
      .infer = infer::same_shape(infer::real, 2),
      .derivative = derivative::per_operand({same, rem_divisor}),
      .batch = batch::pointwise(rem),
      .reference =
          binary<double, std::int64_t, std::uint64_t>([](auto a, auto b) { return truncated_remainder(a, b); }),
      .samples = samples::both(samples::elementwise({{-2, 2, true}, {2.5, 4}}), quotient_samples()),
      .error_samples = samples::elementwise_errors(2, DType::float32, DType::bool_),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::fma() {
  static const Primitive op{
      .name = "fma",
      .infer = infer::same_shape(infer::floating, 3),
      .derivative = derivative::per_operand(
          {[](const JvpContext& context, const Value& da) -> Tangent { return da * context.inputs[1]; },
           [](const JvpContext& context, const Value& db) -> Tangent { return db * context.inputs[0]; }, same}),
      .batch = batch::pointwise(fma),
      .reference = reference::ternary<double>([](double a, double b, double c) { return std::fma(a, b, c); }),
      .samples = samples::elementwise({{-2, 2}, {-2, 2}, {-2, 2}}),
      .error_samples = samples::elementwise_errors(3, DType::float32, DType::int32),
      .traits = loops::with(pointwise_traits, loops::same<loops::real>)};
  return op;
}

namespace {

/// No tangent passes, and no cotangent: a linear function has stop_gradient where vmap of a cond guards its branches.
ir::Derivative stopped() {
  ir::Derivative derivative = derivative::zero();
  derivative.transpose = [](const TransposeContext&) { return std::vector<Tangent>{std::nullopt}; };
  derivative.linear_in = {0};
  return derivative;
}

}  // namespace

const Primitive& primitives::stop_gradient() {
  static const Primitive op{.name = "stop_gradient",
                            .infer = infer::same_shape(infer::any),
                            .derivative = stopped(),
                            .batch = batch::pointwise(stop_gradient),
                            .reference = reference::copies(),
                            .samples = samples::both(samples::unary(-2, 2, samples::all_floats),
                                                     samples::unary(0, 2, {DType::int32, DType::bool_, DType::key})),
                            .error_samples = samples::errors(
                                {{{{DType::float32, {}, {}}, {DType::float32, {}, {}}}, {}, "expected 1 operand", {}}}),
                            .traits = {.pointwise = true, .keeps_integers = true, .moves = ir::Moves::in_place}};
  return op;
}

}  // namespace lockstep::ops
