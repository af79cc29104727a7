#include "engine/ops/linalg/matrix_samples.h"

namespace lockstep::ops {

ir::SampleInput matrix_input(DType dtype, const Shape& shape, const MatrixRange& range) {
  ir::SampleInput input = samples::input(dtype, shape, range.range);
  input.diagonal = range.diagonal;
  return input;
}

const std::vector<DType>& matrix_sample_dtypes() {
  static const std::vector<DType> dtypes = {DType::float64, DType::float32, DType::complex128, DType::complex64};
  return dtypes;
}

std::vector<ir::Sample> matrix_samples(std::initializer_list<Shape> shapes, const Attrs& attrs,
                                       const MatrixRange& range) {
  std::vector<ir::Sample> list;
  for (const DType dtype : matrix_sample_dtypes()) {
    for (const Shape& shape : shapes) list.push_back({{matrix_input(dtype, shape, range)}, attrs, {}});
  }
  return list;
}

samples::ErrorSamples matrix_errors(const Attrs& attrs, const std::vector<ir::ErrorSample>& more) {
  const ArrayType matrix{DType::float32, Shape{3, 3}, {}};
  std::vector<ir::ErrorSample> list = {
      {{matrix, matrix}, attrs, "expected 1 operand", {}},
      {{{DType::float32, Shape{3}, {}}}, attrs, "expected rank 2 or more for operand 0", {}},
      {{{DType::float16, Shape{3, 3}, {}}}, attrs, "expected float32", {}}};
  list.insert(list.end(), more.begin(), more.end());
  return samples::errors(list);
}

samples::ErrorSamples square_errors(const Attrs& attrs) {
  return matrix_errors(attrs,
                       {{{{DType::float32, Shape{2, 3}, {}}}, attrs, "expected square matrices for operand 0", {}}});
}

}  // namespace lockstep::ops
