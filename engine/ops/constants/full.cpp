#include <complex>
#include <cstdint>
#include <string>
#include <variant>

#include "engine/ops/constants/zeros.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> full_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 0);
  const DType dtype = context.attrs.get<DType>("dtype");
  const AttrValue& value = context.attrs.at("value");
  const bool fits = dtype == DType::bool_ ? std::holds_alternative<bool>(value)
                    : is_integer(dtype)   ? std::holds_alternative<std::int64_t>(value)
                    : is_inexact(dtype)   ? std::holds_alternative<double>(value)
                                          : false;
  if (!fits) {
    infer::dtype_error(context, "a bool value for bool, an int64 for integers, a double for float and complex dtypes",
                       "write the value as the dtype's kind; keys are made by random_wrap");
  }
  return {{dtype, infer::shape_attr(context, "shape"), {}}};
}

void full_reference(const ir::ReferenceContext& context) {
  ir::ReferenceArray& result = context.outputs[0];
  const AttrValue& value = context.attrs.at("value");
  for (std::int64_t i = 0; i < result.type.size(); ++i) {
    if (is_float(result.type.dtype)) {
      reference::store(result, i, std::get<double>(value));
    } else if (is_complex(result.type.dtype)) {
      reference::store(result, i, Complex(std::get<double>(value)));
    } else if (result.type.dtype == DType::bool_) {
      reference::store(result, i, std::get<bool>(value));
    } else {
      reference::store(result, i, std::get<std::int64_t>(value));
    }
  }
}

Attrs full_attrs(DType dtype, const Shape& shape, AttrValue value) {
  return {{"dtype", dtype}, {"shape", shape.to_vector()}, {"value", std::move(value)}};
}

std::vector<ir::Sample> full_samples() {
  std::vector<ir::Sample> result;
  for (const Shape& shape : samples::small_shapes()) {
    for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16, DType::complex64}) {
      result.push_back({{}, full_attrs(dtype, shape, -1.25), {}});
    }
    for (const DType dtype : {DType::int32, DType::int64, DType::uint8, DType::uint32}) {
      result.push_back({{}, full_attrs(dtype, shape, std::int64_t{7}), {}});
    }
    result.push_back({{}, full_attrs(DType::bool_, shape, true), {}});
  }
  return result;
}

}  // namespace

const Primitive& primitives::full() {
  static const Primitive op{
      .name = "full",
      .infer = full_infer,
      .derivative = derivative::zero(),
      .batch = batch::constant(full),
      .reference = full_reference,
      .samples = full_samples,
      .error_samples =
          samples::errors({{{}, full_attrs(DType::int32, Shape{2}, 1.5), "an int64 for integers", {}},
                           {{}, full_attrs(DType::float32, Shape{2}, true), "a double for float", {}},
                           {{}, full_attrs(DType::key, Shape{2}, std::int64_t{0}), "keys are made by random_wrap", {}},
                           {{},
                            {{"dtype", DType::int32}, {"shape", Dims{-1}}, {"value", std::int64_t{0}}},
                            "extents of 0 or more",
                            {}}}),
      .traits = {},
      .layout = layout::constant()};
  return op;
}

bool writes_zeros(const ir::Equation& equation) {
  if (equation.primitive != &primitives::full()) return false;
  const AttrValue& value = equation.attrs.at("value");
  const auto* real = std::get_if<double>(&value);
  const auto* integer = std::get_if<std::int64_t>(&value);
  return (real != nullptr && *real == 0) || (integer != nullptr && *integer == 0);
}

}  // namespace lockstep::ops
