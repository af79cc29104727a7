#include <bit>
#include <cstdint>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

/// f(the element's bits alone, their number).
template <class F>
ir::Reference on_bits(F f) {
  return [f](const ir::ReferenceContext& context) {
    const int width = static_cast<int>(size_of(context.outputs[0].type.dtype)) * 8;
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - width);
    for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
      const std::uint64_t bits = reference::load<std::uint64_t>(context.inputs[0], i) & mask;
      reference::store(context.outputs[0], i, static_cast<std::int64_t>(f(bits, width)));
    }
  };
}

template <class F>
Primitive count_primitive(std::string name, PrimitiveGetter self, F f) {
  return {.name = std::move(name),
          .infer = infer::same_shape(infer::integral),
          .derivative = derivative::zero(),
          .batch = batch::pointwise(self),
          .reference = on_bits(f),
          .samples = samples::both(samples::unary(-100, 100, {DType::int8, DType::int32, DType::int64}),
                                   samples::unary(0, 100, {DType::uint8, DType::uint32, DType::uint64})),
          .error_samples = samples::elementwise_errors(1, DType::int32, DType::float32),
          .traits = pointwise_traits};
}

}  // namespace

const Primitive& primitives::population_count() {
  static const Primitive op = count_primitive("population_count", population_count,
                                              [](std::uint64_t bits, int) { return std::popcount(bits); });
  return op;
}

const Primitive& primitives::clz() {
  static const Primitive op =
      count_primitive("clz", clz, [](std::uint64_t bits, int width) { return std::countl_zero(bits) - (64 - width); });
  return op;
}

}  // namespace lockstep::ops
