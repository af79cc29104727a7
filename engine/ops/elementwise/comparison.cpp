#include <cstdint>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

/// Small integers make ties; floats are drawn away from each other, with equal ones by the integer draws.
samples::Samples comparison_samples() {
  return samples::both(
      samples::elementwise({{-2, 2}, {-2, 2}}, samples::all_floats),
      samples::both(samples::elementwise({{-2, 3}, {-2, 3}}, {DType::int32, DType::int64, DType::int8}),
                    samples::elementwise({{0, 2}, {0, 2}}, {DType::bool_, DType::uint8, DType::uint32})));
}

template <class F>
Primitive ordering(std::string name, PrimitiveGetter self, F f) {
  return {.name = std::move(name),
          .infer = infer::comparison(infer::ordered),
          .derivative = derivative::zero(),
          .batch = batch::pointwise(self),
          .reference = reference::binary<double, std::int64_t, std::uint64_t, bool>(f),
          .samples = comparison_samples(),
          .error_samples = samples::elementwise_errors(2, DType::float32, DType::complex64),
          .traits = loops::with(exact_traits, loops::predicate<loops::floating | loops::integer>)};
}

template <class F>
Primitive equality(std::string name, PrimitiveGetter self, F f) {
  return {.name = std::move(name),
          .infer = infer::comparison(infer::value),
          .derivative = derivative::zero(),
          .batch = batch::pointwise(self),
          .reference = reference::binary<double, std::int64_t, std::uint64_t, bool, Complex>(f),
          .samples = comparison_samples(),
          .error_samples = samples::elementwise_errors(2, DType::float32, DType::key),
          .traits = loops::with(exact_traits, loops::predicate<loops::floating | loops::word | loops::truth>)};
}

}  // namespace

const Primitive& primitives::equal() {
  static const Primitive op = equality("equal", equal, [](auto a, auto b) { return a == b; });
  return op;
}

const Primitive& primitives::not_equal() {
  static const Primitive op = equality("not_equal", not_equal, [](auto a, auto b) { return a != b; });
  return op;
}

const Primitive& primitives::less() {
  static const Primitive op = ordering("less", less, [](auto a, auto b) { return a < b; });
  return op;
}

const Primitive& primitives::less_equal() {
  static const Primitive op = ordering("less_equal", less_equal, [](auto a, auto b) { return a <= b; });
  return op;
}

const Primitive& primitives::greater() {
  static const Primitive op = ordering("greater", greater, [](auto a, auto b) { return a > b; });
  return op;
}

const Primitive& primitives::greater_equal() {
  static const Primitive op = ordering("greater_equal", greater_equal, [](auto a, auto b) { return a >= b; });
  return op;
}

}  // namespace lockstep::ops
