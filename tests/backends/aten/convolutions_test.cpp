#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/aten/kernel_runs.h"

// Convolutions of shapes on which the libraries below take other paths than on the samples'.
namespace lockstep::tests {

namespace {

using Dims = std::vector<std::int64_t>;

struct Case {
  const char* name;
  Shape x, kernel, y;
  Attrs attrs;
};

Attrs conv_attrs(Dims strides, std::vector<Dims> padding, Dims dilation, std::int64_t groups) {
  return {{"strides", std::move(strides)},
          {"padding", std::move(padding)},
          {"dilation", std::move(dilation)},
          {"groups", groups}};
}

std::vector<Case> cases() {
  return {
      {"same padding",
       {2, 14, 14, 16},
       {3, 3, 16, 32},
       {2, 14, 14, 32},
       conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1)},
      {"stride 2", {2, 16, 16, 16}, {3, 3, 16, 16}, {2, 8, 8, 16}, conv_attrs({2, 2}, {{0, 1}, {0, 1}}, {1, 1}, 1)},
      {"one channel", {4, 28, 28, 1}, {5, 5, 1, 16}, {4, 28, 28, 16}, conv_attrs({1, 1}, {{2, 2}, {2, 2}}, {1, 1}, 1)},
      {"depthwise", {2, 12, 12, 32}, {3, 3, 1, 32}, {2, 12, 12, 32}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 32)},
      {"pointwise", {2, 9, 9, 33}, {1, 1, 33, 17}, {2, 9, 9, 17}, conv_attrs({1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1)},
      {"dilated", {1, 15, 15, 16}, {3, 3, 16, 16}, {1, 11, 11, 16}, conv_attrs({1, 1}, {{0, 0}, {0, 0}}, {2, 2}, 1)},
      {"one dimension", {3, 50, 16}, {5, 16, 24}, {3, 25, 24}, conv_attrs({2}, {{2, 1}}, {1}, 1)},
      {"three dimensions",
       {1, 6, 7, 8, 8},
       {3, 3, 3, 8, 8},
       {1, 6, 7, 8, 8},
       conv_attrs({1, 1, 1}, {{1, 1}, {1, 1}, {1, 1}}, {1, 1, 1}, 1)},
      {"one output", {1, 2, 2, 3}, {3, 3, 3, 1}, {1, 3, 3, 1}, conv_attrs({4, 4}, {{5, 5}, {5, 5}}, {1, 1}, 1)},
      {"four dimensions",
       {2, 3, 4, 3, 4, 4},
       {2, 2, 1, 3, 2, 6},
       {2, 2, 2, 3, 3, 6},
       conv_attrs({1, 2, 1, 1}, {{0, 0}, {1, 0}, {0, 0}, {0, 1}}, {1, 1, 1, 1}, 2)},
  };
}

void check(const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
  const BoundOp bound(primitive, input_types(sample), sample.attrs);
  REQUIRE_MESSAGE(bound.kernel != nullptr, name);
  const std::vector<ir::ReferenceArray> inputs = draw(sample, 71);
  std::vector<ir::ReferenceArray> expected = {ir::reference_zeros(bound.outputs[0])};
  primitive.reference({inputs, sample.attrs, expected});
  const ir::ReferenceArray result = ir::reference_from_bytes(bound.outputs[0], bound.run(draw_memory(sample, 71))[0]);
  // Hundreds of products of either sign: the error is relative to their sizes, not to their sum. 16-bit floats are
  // rounded once, at the end.
  const DType dtype = sample.inputs[0].type.dtype;
  const double bound_of_error = dtype == bfloat16 ? 0.01 : 20 * tolerance(dtype);
  CHECK_MESSAGE(first_difference(result, expected[0], bound_of_error) == -1,
                name << ": " << describe(primitive, sample));
}

}  // namespace

TEST_CASE("convolutions and both gradients, on every path") {
  for (const Case& c : cases()) {
    const Dims spatial(c.x.begin() + 1, c.x.end() - 1);
    const Dims window(c.kernel.begin(), c.kernel.end() - 2);
    for (const DType dtype : {float32, float64, bfloat16}) {
      const ir::SampleInput x{{dtype, c.x, {}}, -1, 1, false};
      const ir::SampleInput kernel{{dtype, c.kernel, {}}, -1, 1, false};
      const ir::SampleInput y{{dtype, c.y, {}}, -1, 1, false};
      check(ops::primitives::conv(), {{x, kernel}, c.attrs, {}}, c.name);
      check(ops::primitives::conv_input_grad(), {{y, kernel}, c.attrs.with("spatial", spatial), {}}, c.name);
      check(ops::primitives::conv_kernel_grad(), {{x, y}, c.attrs.with("window", window), {}}, c.name);
    }
  }
}

}  // namespace lockstep::tests
