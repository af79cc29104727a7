#include <cmath>
#include <cstdint>
#include <cstring>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

/// Away from any integer, where the result jumps.
const samples::Samples& rounding_samples() {
  static const samples::Samples samples = samples::elementwise({{-3, 3, true}}, samples::all_floats);
  return samples;
}

ir::Traits rounding(ir::Traits traits) {
  traits.keeps_integers = true;
  return traits;
}

/// The neighbour of a 16-bit float, on its bits: magnitudes are ordered as integers.
std::uint16_t next_bits(std::uint16_t bits, bool upwards) {
  if ((bits & 0x7fff) == 0) return upwards ? 0x0001 : 0x8001;
  const bool negative = (bits & 0x8000) != 0;
  return static_cast<std::uint16_t>(negative == upwards ? bits - 1 : bits + 1);
}

double next_half(double x, double towards, DType dtype) {
  if (std::isnan(x) || std::isnan(towards)) return x + towards;
  if (x == towards) return towards;
  ir::ReferenceArray element = ir::reference_zeros({dtype, Shape{}, {}});
  element.floats()[0] = x;
  std::vector<std::byte> bytes = ir::reference_to_bytes(element);
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data(), sizeof bits);
  bits = next_bits(bits, towards > x);
  std::memcpy(bytes.data(), &bits, sizeof bits);
  return ir::reference_from_bytes(element.type, bytes).floats()[0];
}

double next_element(double x, double towards, DType dtype) {
  if (dtype == DType::float64) return std::nextafter(x, towards);
  if (dtype == DType::float32) return std::nextafter(static_cast<float>(x), static_cast<float>(towards));
  return next_half(x, towards, dtype);
}

}  // namespace

const Primitive& primitives::floor() {
  static const Primitive op{.name = "floor",
                            .infer = infer::same_shape(infer::floating),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(floor),
                            .reference = reference::unary<double>([](double x) { return std::floor(x); }),
                            .samples = rounding_samples(),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = rounding(loops::with(exact_traits, loops::same<loops::floating>))};
  return op;
}

const Primitive& primitives::ceil() {
  static const Primitive op{.name = "ceil",
                            .infer = infer::same_shape(infer::floating),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(ceil),
                            .reference = reference::unary<double>([](double x) { return std::ceil(x); }),
                            .samples = rounding_samples(),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = rounding(loops::with(exact_traits, loops::same<loops::floating>))};
  return op;
}

const Primitive& primitives::round() {
  static const Primitive op{.name = "round",
                            .infer = infer::same_shape(infer::floating),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(round),
                            .reference = reference::unary<double>([](double x) { return std::nearbyint(x); }),
                            .samples = rounding_samples(),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = rounding(loops::with(quick_traits, loops::same<loops::floating>))};
  return op;
}

const Primitive& primitives::is_finite() {
  static const Primitive op{.name = "is_finite",
                            .infer = infer::unary_to(infer::inexact, DType::bool_),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(is_finite),
                            .reference = reference::unary<double, Complex>(
                                [](auto x) { return std::isfinite(std::real(x)) && std::isfinite(std::imag(x)); }),
                            .samples = samples::unary(-3, 3, samples::all_floats),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = loops::with(quick_traits, loops::predicate<loops::floating>)};
  return op;
}

const Primitive& primitives::nextafter() {
  static const Primitive op{.name = "nextafter",
                            .infer = infer::same_shape(infer::floating, 2),
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(nextafter),
                            .reference =
                                [](const ir::ReferenceContext& context) {
                                  const DType dtype = context.outputs[0].type.dtype;
                                  reference::binary<double>([dtype](double x, double towards) {
                                    return next_element(x, towards, dtype);
                                  })(context);
                                },
                            .samples = samples::elementwise({{-2, 2}, {-2, 2}}),
                            .error_samples = samples::elementwise_errors(2, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  return op;
}

}  // namespace lockstep::ops
