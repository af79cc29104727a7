#include "engine/ops/cumulative/cumulative.h"

#include "engine/core/lists.h"

namespace lockstep::ops {

ir::Infer cumulative_infer(infer::DtypeClass allowed, std::size_t operands) {
  return [allowed, operands](const ir::InferContext& context) -> std::vector<ArrayType> {
    infer::expect_operands(context, operands);
    infer::expect_dtype(context, 0, allowed);
    infer::expect_same_dtype(context);
    infer::expect_same_shape(context);
    infer::index_attr(context, "axis", context.inputs[0].shape.rank());
    context.attrs.get<bool>("reverse");
    return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
  };
}

Value previous(const Value& x, double first, std::int64_t axis, bool reverse) {
  Dims low = repeated(x.rank()), high = low;
  const Dims interior = low;
  nth(reverse ? high : low, axis) = 1;
  nth(reverse ? low : high, axis) = -1;
  return pad(x, first, low, high, interior);
}

Value linear_recurrence(const Value& a, const Value& b, const Attrs& direction) {
  return apply_one(primitives::linear_recurrence(), {a, b}, direction);
}

std::vector<ir::Sample> cumulative_samples(const std::vector<DType>& dtypes, double low, double high,
                                           std::size_t operands) {
  std::vector<ir::Sample> result;
  for (const DType dtype : dtypes) {
    const auto add = [&](const Shape& shape, std::int64_t axis) {
      for (const bool reverse : {false, true}) {
        ir::Sample sample;
        for (std::size_t i = 0; i < operands; ++i) {
          sample.inputs.push_back(
              samples::input(dtype, shape, {is_unsigned_integer(dtype) ? 0 : low, high, is_float(dtype)}));
        }
        sample.attrs = Direction(axis, reverse).attrs();
        result.push_back(std::move(sample));
      }
    };
    add(Shape{5}, 0);
    add(Shape{3, 4}, 0);
    add(Shape{3, 4}, 1);
    add(Shape{2, 3, 2}, 1);
    add(Shape{1}, 0);
    add(Shape{1, 3}, 0);
    add(Shape{0, 3}, 0);
    add(Shape{0, 3}, 1);
  }
  return result;
}

samples::ErrorSamples cumulative_errors(DType illegal, std::size_t operands) {
  const ArrayType x{DType::float32, Shape{2, 3}, {}};
  const Attrs attrs = Direction(0, false).attrs();
  const std::vector<ArrayType> wrong(operands, {illegal, Shape{2}, {}});
  const std::vector<ArrayType> right(operands, x);
  const std::vector<ArrayType> many(operands + 1, x);
  std::vector<ir::ErrorSample> errors = {{wrong, attrs, "for operand 0", {}},
                                         {right, Direction(2, false).attrs(), "expected axis in [0, 2)", {}},
                                         {many, attrs, "expected " + std::to_string(operands) + " operand", {}}};
  if (operands > 1) errors.push_back({{x, {DType::float32, Shape{3}, {}}}, attrs, "operands of one shape", {}});
  return samples::errors(std::move(errors));
}

}  // namespace lockstep::ops
