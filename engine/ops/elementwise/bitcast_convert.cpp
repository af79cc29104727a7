#include <cstdint>
#include <string>

#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

/// Bytes of an element; bool, complex and key have no bits that mean anything elsewhere.
std::int64_t width_of(const ir::InferContext& context, DType dtype) {
  if (!is_float(dtype) && !is_integer(dtype)) {
    infer::dtype_error(context, "float or integer dtypes on both sides", "convert(x, dtype)");
  }
  return static_cast<std::int64_t>(size_of(dtype));
}

std::vector<ArrayType> bitcast_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const ArrayType& x = context.inputs[0];
  const DType to = context.attrs.get<DType>("dtype");
  const std::int64_t old_width = width_of(context, x.dtype);
  const std::int64_t new_width = width_of(context, to);
  Shape shape = x.shape;
  if (new_width < old_width) shape.append(old_width / new_width);
  if (new_width > old_width) {
    const std::int64_t parts = new_width / old_width;
    if (shape.rank() == 0 || shape[shape.rank() - 1] != parts) {
      infer::shape_error(context,
                         "a last dimension of " + std::to_string(parts) + ", the parts of one " + std::string(name(to)),
                         "reshape the operand to end in " + std::to_string(parts));
    }
    shape = shape.erase(shape.rank() - 1);
  }
  return {{to, shape, {}}};
}

void bitcast_reference(const ir::ReferenceContext& context) {
  context.outputs[0] = ir::reference_from_bytes(context.outputs[0].type, ir::reference_to_bytes(context.inputs[0]));
}

std::vector<ir::Sample> bitcast_samples() {
  std::vector<ir::Sample> result;
  const double one = 0x3f800000, two = 0x40000000;
  for (const Shape& shape : samples::small_shapes()) {
    result.push_back({{samples::input(DType::float32, shape)}, {{"dtype", DType::uint32}}, {}});
    result.push_back({{samples::input(DType::uint32, shape, {one, two})}, {{"dtype", DType::float32}}, {}});
    result.push_back({{samples::input(DType::float64, shape)}, {{"dtype", DType::int64}}, {}});
    result.push_back({{samples::input(DType::float64, shape)}, {{"dtype", DType::uint32}}, {}});
    result.push_back(
        {{samples::input(DType::uint8, shape.insert(shape.rank(), 4), {0, 64})}, {{"dtype", DType::float32}}, {}});
  }
  return result;
}

/// Between types of one width as an element-wise op; else the dimension that comes or goes is whole.
ir::Factors bitcast_factors(const ir::LayoutContext& context) { return layout::leading(0).factors(context); }

}  // namespace

const Primitive& primitives::bitcast_convert() {
  static const Primitive op{
      .name = "bitcast_convert",
      .infer = bitcast_infer,
      .derivative = derivative::zero(),
      .batch = batch::pointwise(bitcast_convert),
      .reference = bitcast_reference,
      .samples = bitcast_samples,
      .error_samples = samples::errors(
          {{{{DType::bool_, Shape{2}, {}}}, {{"dtype", DType::uint8}}, "float or integer dtypes on both sides", {}},
           {{{DType::uint8, Shape{3}, {}}}, {{"dtype", DType::float32}}, "expected a last dimension of 4", {}},
           {{{DType::uint32, Shape{}, {}}}, {{"dtype", DType::float64}}, "expected a last dimension of 2", {}}}),
      .traits = {.in_loops =
                     [](DType operand, DType result) {
                       constexpr unsigned bits = loops::real | loops::word;
                       return (loops::class_of(operand) & bits) != 0 && (loops::class_of(result) & bits) != 0;
                     }},
      .layout = {.factors = bitcast_factors}};
  return op;
}

}  // namespace lockstep::ops
