#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/convolution_cases.h"

namespace lockstep::tests {

namespace {

bool is_made(const ir::Primitive& primitive, const ir::Sample& sample) {
  return BoundOp(primitive, sample).kernel != nullptr;
}

}  // namespace

TEST_CASE("convolutions and both gradients of every shape have the reference's values") {
  for (const DType dtype : {float32, bfloat16, float16}) {
    int made = 0;
    for (const ConvolutionCase& c : convolution_cases()) {
      for_each_of_family(c, dtype, [&](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
        if (!is_made(primitive, sample)) return;
        check_against_reference(primitive, sample, name);
        ++made;
      });
    }
    // All but those of four dimensions; what 16-bit floats there are depends on the processor.
    if (dtype == float32) CHECK(made == (offers() ? 3 * (static_cast<int>(convolution_cases().size()) - 1) : 0));
  }
}

TEST_CASE("bfloat16 convolutions of more images than are taken at once, gradients of kernels in both dtypes") {
  const ConvolutionCase c{
      "many images", {42, 24, 24, 16}, {2, 2, 16, 4}, {42, 12, 12, 4}, conv_attrs({2, 2}, {{0, 0}, {0, 0}}, {1, 1}, 1)};
  for_each_of_family(c, bfloat16, [&](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
    if (!is_made(primitive, sample)) return;
    check_against_reference(primitive, sample, name);
    if (&primitive != &ops::primitives::conv_kernel_grad()) return;
    ir::Sample wide = sample;
    wide.attrs = sample.attrs.with("dtype", float32);
    if (is_made(primitive, wide)) check_against_reference(primitive, wide, name);
  });
}

TEST_CASE("strided convolutions of one place or one channel, and both gradients") {
  int made = 0;
  for (const ConvolutionCase& c : strided_cases()) {
    for (const DType dtype : {float32, bfloat16}) {
      for_each_of_family(c, dtype, [&](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
        if (!is_made(primitive, sample)) return;
        check_against_reference(primitive, sample, name);
        ++made;
      });
    }
  }
  CHECK((made > 0) == offers());
}

TEST_CASE("the samples of the convolutions, in float32") {
  for (const ir::Primitive* primitive :
       {&ops::primitives::conv(), &ops::primitives::conv_input_grad(), &ops::primitives::conv_kernel_grad()}) {
    int made = 0;
    for (const ir::Sample& sample : primitive->samples()) {
      if (!is_made(*primitive, sample)) continue;
      check_against_reference(*primitive, sample, "sample");
      ++made;
    }
    CHECK((made >= 5) == offers());
  }
}

TEST_CASE("convolutions in float64, without elements or of four dimensions are left to others") {
  const auto left = [](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
    CHECK_MESSAGE(!is_made(primitive, sample), name);
  };
  for_each_of_family(convolution_cases().front(), float64, left);
  for_each_of_family(convolution_cases().back(), float32, left);
  const Attrs plain = conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1);
  for_each_of_family({"no images", {0, 4, 4, 2}, {3, 3, 2, 2}, {0, 4, 4, 2}, plain}, float32, left);
}

}  // namespace lockstep::tests
