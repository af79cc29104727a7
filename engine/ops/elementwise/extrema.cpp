#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

/// The share of operand `self` in the derivative: 1 where it is the result, halved where the other is it too.
Tangent share(const JvpContext& context, const Value& tangent, std::size_t self) {
  const Value& y = context.outputs[0];
  const Value tie = select(equal(context.inputs[1 - self], y), full_like(y, 0.5), full_like(y, 1));
  return tangent * select(equal(context.inputs[self], y), tie, full_like(y, 0));
}

derivative::Derivative shared_among_ties() {
  return derivative::per_operand({[](const JvpContext& context, const Value& da) { return share(context, da, 0); },
                                  [](const JvpContext& context, const Value& db) { return share(context, db, 1); }});
}

/// `a` where it is NaN or `first` holds.
template <class T, class Before>
T extremum(T a, T b, Before before) {
  if (b != b) return b;
  return a != a || before(a, b) ? a : b;
}

samples::Samples ordered_samples() {
  return samples::both(
      samples::elementwise({{-2, 2, true}, {-1.9, 2.1, true}}, samples::all_floats),
      samples::both(samples::elementwise({{-3, 3}, {-3, 3}}, {DType::int32, DType::int64, DType::int8}),
                    samples::elementwise({{0, 2}, {0, 2}}, {DType::uint8, DType::bool_})));
}

}  // namespace

const Primitive& primitives::maximum() {
  static const Primitive op{
      .name = "maximum",
      .infer = infer::same_shape(infer::ordered, 2),
      .derivative = shared_among_ties(),
      .batch = batch::pointwise(maximum),
      .reference = reference::binary<double, std::int64_t, std::uint64_t, bool>(
          [](auto a, auto b) { return extremum(a, b, [](auto x, auto y) { return x > y; }); }),
      .samples = ordered_samples(),
      .error_samples = samples::elementwise_errors(2, DType::float32, DType::complex64),
      .traits = loops::with(quick_traits, loops::same<loops::floating | loops::integer | loops::truth>)};
  return op;
}

const Primitive& primitives::minimum() {
  static const Primitive op{
      .name = "minimum",
      .infer = infer::same_shape(infer::ordered, 2),
      .derivative = shared_among_ties(),
      .batch = batch::pointwise(minimum),
      .reference = reference::binary<double, std::int64_t, std::uint64_t, bool>(
          [](auto a, auto b) { return extremum(a, b, [](auto x, auto y) { return x < y; }); }),
      .samples = ordered_samples(),
      .error_samples = samples::elementwise_errors(2, DType::float32, DType::complex64),
      .traits = loops::with(quick_traits, loops::same<loops::floating | loops::integer | loops::truth>)};
  return op;
}

}  // namespace lockstep::ops
