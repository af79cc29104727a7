#include "engine/ops/rules/define.h"

// Derivatives follow JAX: a cotangent pairs with a tangent by the real part of their product, without conjugation.
namespace lockstep::ops {

namespace {

std::vector<ArrayType> complex_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  const DType part = context.inputs[0].dtype;
  if (part != DType::float32 && part != DType::float64) {
    infer::dtype_error(context, "float32 or float64 parts", "convert(x, float32) first");
  }
  infer::expect_same_dtype(context);
  infer::expect_same_shape(context);
  return {{part == DType::float32 ? DType::complex64 : DType::complex128, context.inputs[0].shape, {}}};
}

std::vector<Tangent> complex_jvp(const JvpContext& context) {
  const ArrayType& part = context.inputs[0].type();
  return {complex(derivative::or_zeros(context.builder, context.tangents[0], part),
                  derivative::or_zeros(context.builder, context.tangents[1], part))};
}

samples::ErrorSamples complex_only() {
  const ArrayType x{DType::complex64, Shape{2}, {}};
  return samples::errors(
      {{{{DType::float32, Shape{2}, {}}}, {}, "expected a complex dtype", {}}, {{x, x}, {}, "expected 1 operand", {}}});
}

Value zero_part(const Value& part) { return zeros(part.builder(), part.type()); }

}  // namespace

const Primitive& primitives::complex() {
  const ArrayType x{DType::float32, Shape{2}, {}};
  static const Primitive op{.name = "complex",
                            .infer = complex_infer,
                            .derivative = derivative::linear(
                                [](const TransposeContext& context) -> std::vector<Tangent> {
                                  return {ops::real(*context.cotangents[0]), -ops::imag(*context.cotangents[0])};
                                },
                                {}, complex_jvp),
                            .batch = batch::pointwise(complex),
                            .reference =
                                [](const ir::ReferenceContext& context) {
                                  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
                                    reference::store(context.outputs[0], i,
                                                     Complex(reference::load<double>(context.inputs[0], i),
                                                             reference::load<double>(context.inputs[1], i)));
                                  }
                                },
                            .samples = samples::elementwise({{-2, 2}, {-2, 2}}),
                            .error_samples = samples::errors(
                                {{{{DType::float16, Shape{2}, {}}, {DType::float16, Shape{2}, {}}}, {}, "parts", {}},
                                 {{x, {DType::float64, Shape{2}, {}}}, {}, "operands of one dtype", {}},
                                 {{x, {DType::float32, Shape{3}, {}}}, {}, "operands of one shape", {}}}),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::real() {
  static const Primitive op{
      .name = "real",
      .infer = infer::unary_to_part(infer::complex_valued),
      .derivative = derivative::linear_in_one(
          0, [](const TransposeContext&, const Value& ct) { return ops::complex(ct, zero_part(ct)); }),
      .batch = batch::pointwise(real),
      .reference = reference::unary<Complex>([](Complex x) { return x.real(); }),
      .samples = samples::unary(-2, 2, samples::complexes),
      .error_samples = complex_only(),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::imag() {
  static const Primitive op{
      .name = "imag",
      .infer = infer::unary_to_part(infer::complex_valued),
      .derivative = derivative::linear_in_one(
          0, [](const TransposeContext&, const Value& ct) { return ops::complex(zero_part(ct), -ct); }),
      .batch = batch::pointwise(imag),
      .reference = reference::unary<Complex>([](Complex x) { return x.imag(); }),
      .samples = samples::unary(-2, 2, samples::complexes),
      .error_samples = complex_only(),
      .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::conj() {
  static const Primitive op{.name = "conj",
                            .infer = infer::same_shape(infer::complex_valued),
                            .derivative = derivative::linear_in_one(
                                0, [](const TransposeContext&, const Value& ct) { return ops::conj(ct); }),
                            .batch = batch::pointwise(conj),
                            .reference = reference::unary<Complex>([](Complex x) { return std::conj(x); }),
                            .samples = samples::unary(-2, 2, samples::complexes),
                            .error_samples = complex_only(),
                            .traits = pointwise_traits};
  return op;
}

}  // namespace lockstep::ops
