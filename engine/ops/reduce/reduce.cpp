#include "engine/ops/reduce/reduce.h"

namespace lockstep::ops {

std::vector<ir::Sample> reduction_samples(const std::vector<DType>& dtypes, double low, double high) {
  std::vector<ir::Sample> result;
  for (const DType dtype : dtypes) {
    const auto add = [&](const Shape& shape, const Dims& axes) {
      const samples::Range range{is_unsigned_integer(dtype) || dtype == DType::bool_ ? 0 : low,
                                 dtype == DType::bool_ ? 2 : high, is_float(dtype)};
      result.push_back({{samples::input(dtype, shape, range)}, {{"axes", axes}}, {}});
    };
    add(Shape{5}, {0});
    add(Shape{3, 4}, {0});
    add(Shape{3, 4}, {1});
    add(Shape{3, 4}, {0, 1});
    add(Shape{2, 3, 4}, {0, 2});
    add(Shape{2, 3}, {});
    add(Shape{}, {});
    add(Shape{1, 3}, {0});
    add(Shape{0, 3}, {0});
    add(Shape{0, 3}, {1});
  }
  return result;
}

samples::ErrorSamples reduction_errors(DType illegal, DType legal) {
  const ArrayType x{legal, Shape{2, 3}, {}};
  return samples::errors({{{{illegal, Shape{2}, {}}}, {{"axes", Dims{0}}}, "for operand 0", {}},
                          {{x}, {{"axes", Dims{2}}}, "expected distinct axes in [0, 2)", {}},
                          {{x}, {{"axes", Dims{1, 1}}}, "expected distinct axes", {}},
                          {{x, x}, {{"axes", Dims{0}}}, "expected 1 operand", {}}});
}

std::int64_t reduced_size(const Shape& x, const Dims& axes) {
  std::int64_t size = 1;
  for (const std::int64_t axis : axes) size *= x[static_cast<int>(axis)];
  return size;
}

}  // namespace lockstep::ops
