#include <cstdint>
#include <type_traits>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

samples::Samples bitwise_samples(std::size_t operands) {
  return samples::both(
      samples::elementwise(std::vector<samples::Range>(operands, {-100, 100}),
                           {DType::int8, DType::int32, DType::int64}),
      samples::elementwise(std::vector<samples::Range>(operands, {0, 2}), {DType::bool_, DType::uint8, DType::uint32}));
}

/// Amounts beyond the width among them.
samples::Samples shift_samples() {
  return samples::both(samples::elementwise({{-100, 100}, {0, 12}}, {DType::int8, DType::int32, DType::int64}),
                       samples::elementwise({{0, 250}, {0, 40}}, {DType::uint8, DType::uint32}));
}

template <class F>
ir::Reference bitwise(F f) {
  return reference::binary<std::int64_t, std::uint64_t, bool>(
      [f](auto a, auto b) { return static_cast<decltype(a)>(f(a, b)); });
}

enum class Shift { left, right_arithmetic, right_logical };

/// On the low `width` bits of `a`. An amount outside [0, width) shifts everything out. The arithmetic shift fills with the
/// top bit, whether or not that is a sign.
std::int64_t shifted(Shift shift, std::uint64_t a, std::uint64_t amount, int width, bool is_signed) {
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  const bool top = (a >> (width - 1) & 1) != 0;
  const std::uint64_t fill = shift == Shift::right_arithmetic && top ? ~std::uint64_t{0} : 0;
  std::uint64_t result = fill;
  const auto bits = static_cast<std::uint64_t>(width);
  if (amount < bits && shift == Shift::left) result = a << amount;
  if (amount < bits && shift != Shift::left) {
    result = (a & mask) >> amount;
    if (amount > 0) result |= fill << (bits - amount);
  }
  result &= mask;
  if (is_signed && (result >> (width - 1) & 1) != 0) result |= ~mask;
  return static_cast<std::int64_t>(result);
}

ir::Reference shift_reference(Shift shift) {
  return [shift](const ir::ReferenceContext& context) {
    const DType dtype = context.outputs[0].type.dtype;
    const int width = static_cast<int>(size_of(dtype)) * 8;
    for (std::size_t i = 0; i < context.outputs[0].integers().size(); ++i) {
      context.outputs[0].integers()[i] =
          shifted(shift, static_cast<std::uint64_t>(context.inputs[0].integers()[i]),
                  static_cast<std::uint64_t>(context.inputs[1].integers()[i]), width, is_signed_integer(dtype));
    }
  };
}

Primitive shift_primitive(std::string name, PrimitiveGetter self, Shift shift) {
  return {.name = std::move(name),
          .infer = infer::same_shape(infer::integral, 2),
          .derivative = derivative::zero(),
          .batch = batch::pointwise(self),
          .reference = shift_reference(shift),
          .samples = shift_samples(),
          .error_samples = samples::elementwise_errors(2, DType::int32, DType::float32),
          .traits = loops::with(pointwise_traits, loops::same<loops::word>)};
}

}  // namespace

const Primitive& primitives::bitwise_not() {
  static const Primitive op{.name = "bitwise_not",
                            .infer = infer::same_shape(infer::bits),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(bitwise_not),
                            .reference = reference::unary<std::int64_t, std::uint64_t, bool>([](auto x) {
                              if constexpr (std::is_same_v<decltype(x), bool>) {
                                return !x;
                              } else {
                                return ~x;
                              }
                            }),
                            .samples = bitwise_samples(1),
                            .error_samples = samples::elementwise_errors(1, DType::int32, DType::float32),
                            .traits = loops::with(exact_traits, loops::same<loops::word | loops::truth>)};
  return op;
}

const Primitive& primitives::bitwise_and() {
  static const Primitive op{.name = "bitwise_and",
                            .infer = infer::same_shape(infer::bits, 2),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(bitwise_and),
                            .reference = bitwise([](auto a, auto b) { return a & b; }),
                            .samples = bitwise_samples(2),
                            .error_samples = samples::elementwise_errors(2, DType::int32, DType::float32),
                            .traits = loops::with(exact_traits, loops::same<loops::word | loops::truth>)};
  return op;
}

const Primitive& primitives::bitwise_or() {
  static const Primitive op{.name = "bitwise_or",
                            .infer = infer::same_shape(infer::bits, 2),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(bitwise_or),
                            .reference = bitwise([](auto a, auto b) { return a | b; }),
                            .samples = bitwise_samples(2),
                            .error_samples = samples::elementwise_errors(2, DType::int32, DType::float32),
                            .traits = loops::with(exact_traits, loops::same<loops::word | loops::truth>)};
  return op;
}

const Primitive& primitives::bitwise_xor() {
  static const Primitive op{.name = "bitwise_xor",
                            .infer = infer::same_shape(infer::bits, 2),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(bitwise_xor),
                            .reference = bitwise([](auto a, auto b) { return a ^ b; }),
                            .samples = bitwise_samples(2),
                            .error_samples = samples::elementwise_errors(2, DType::int32, DType::float32),
                            .traits = loops::with(exact_traits, loops::same<loops::word | loops::truth>)};
  return op;
}

const Primitive& primitives::shift_left() {
  static const Primitive op = shift_primitive("shift_left", shift_left, Shift::left);
  return op;
}

const Primitive& primitives::shift_right_arithmetic() {
  static const Primitive op =
      shift_primitive("shift_right_arithmetic", shift_right_arithmetic, Shift::right_arithmetic);
  return op;
}

const Primitive& primitives::shift_right_logical() {
  static const Primitive op = shift_primitive("shift_right_logical", shift_right_logical, Shift::right_logical);
  return op;
}

}  // namespace lockstep::ops
