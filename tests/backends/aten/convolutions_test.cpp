#include <doctest/doctest.h>

#include "tests/backends/aten/kernel_runs.h"
#include "tests/support/convolution_cases.h"

namespace lockstep::tests {

namespace {

void check_convolution(const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
  const BoundOp bound(primitive, input_types(sample), sample.attrs);
  REQUIRE_MESSAGE(bound.kernel != nullptr, name);
  const std::vector<ir::ReferenceArray> inputs = draw(sample, 71);
  std::vector<ir::ReferenceArray> expected = {ir::reference_zeros(bound.outputs[0])};
  primitive.reference({inputs, sample.attrs, expected});
  if (is_integer(bound.outputs[0].dtype)) {
    expected[0] = ir::reference_from_bytes(bound.outputs[0], ir::reference_to_bytes(expected[0]));
  }
  const ir::ReferenceArray result = ir::reference_from_bytes(bound.outputs[0], bound.run(draw_memory(sample, 71))[0]);
  // Hundreds of products of either sign: the error is relative to their sizes, not to their sum. 16-bit floats are
  // rounded once, at the end.
  const DType dtype = sample.inputs[0].type.dtype;
  const double bound_of_error = is_integer(dtype) ? 0 : dtype == bfloat16 ? 0.01 : 20 * tolerance(dtype);
  CHECK_MESSAGE(first_difference(result, expected[0], bound_of_error) == -1,
                name << ": " << describe(primitive, sample));
}

}  // namespace

TEST_CASE("convolutions and both gradients, on every path") {
  for (const ConvolutionCase& c : convolution_cases()) {
    for (const DType dtype : {float32, float64, bfloat16, int32, int8, uint16})
      for_each_of_family(c, dtype, check_convolution);
  }
}

TEST_CASE("strided convolutions of one place or one channel, and both gradients") {
  for (const ConvolutionCase& c : strided_cases()) {
    for (const DType dtype : {float32, float64, bfloat16}) for_each_of_family(c, dtype, check_convolution);
  }
}

}  // namespace lockstep::tests
