#include <vector>

#include <doctest/doctest.h>

#include "engine/ops/values.h"
#include "tests/ops/numbers.h"
#include "tests/support/run_reference.h"

namespace lockstep::tests {
namespace {

Attrs attrs(const ops::Dims& strides, const std::vector<ops::Dims>& padding, const ops::Dims& dilation,
            std::int64_t groups = 1) {
  return {{"strides", strides}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
}

struct Operand {
  Shape shape;
  Numbers values;
};

Numbers run_convolution(const char* op, const Operand& a, const Operand& b, const Attrs& with) {
  return run_reference(
             op, {reference_array({float64, a.shape, {}}, a.values), reference_array({float64, b.shape, {}}, b.values)},
             with)[0]
      .floats();
}

const Operand line = {{1, 4, 1}, {1, 2, 3, 4}};
const Operand three = {{3, 1, 1}, {1, 10, 100}};
const Operand two = {{2, 1, 1}, {1, 10}};

}  // namespace

TEST_CASE("conv correlates, pads with zeros, strides and dilates") {
  CHECK(run_convolution("conv", line, three, attrs({1}, {{1, 1}}, {1})) == Numbers{210, 321, 432, 43});
  CHECK(run_convolution("conv", line, three, attrs({2}, {{1, 1}}, {1})) == Numbers{210, 432});
  CHECK(run_convolution("conv", line, two, attrs({1}, {{0, 0}}, {2})) == Numbers{31, 42});
  CHECK(run_convolution("conv", line, two, attrs({3}, {{2, 0}}, {1})) == Numbers{0, 32});
}

TEST_CASE("conv keeps two spatial dimensions apart") {
  const Operand x = {{1, 2, 3, 1}, {1, 2, 3, 4, 5, 6}};
  const Operand kernel = {{2, 2, 1, 1}, {1, 10, 100, 1000}};
  CHECK(run_convolution("conv", x, kernel, attrs({1, 1}, {{0, 0}, {0, 0}}, {1, 1})) == Numbers{5421, 6532});
  CHECK(run_convolution("conv", x, kernel, attrs({1, 2}, {{0, 1}, {1, 0}}, {1, 1})) == Numbers{4010, 6532, 40, 65});
}

TEST_CASE("features are mixed within a group alone") {
  const Operand x = {{1, 1, 4}, {1, 2, 3, 4}};
  const Operand pairs = {{1, 2, 2}, {1, 100, 10, 1000}};  // [window 1, 2 per group, 2 outputs]
  CHECK(run_convolution("conv", x, pairs, attrs({1}, {{0, 0}}, {1}, 2)) == Numbers{1 + 20, 300 + 4000});
  const Operand depthwise = {{1, 1, 8}, {1, 2, 3, 4, 5, 6, 7, 8}};  // two outputs for each input
  CHECK(run_convolution("conv", x, depthwise, attrs({1}, {{0, 0}}, {1}, 4)) == Numbers{1, 2, 6, 8, 15, 18, 28, 32});
}

TEST_CASE("conv_input_grad hands each output's cotangent to the inputs it saw") {
  const Operand ones = {{1, 4, 1}, {1, 1, 1, 1}};
  const Attrs same = attrs({1}, {{1, 1}}, {1}).with("spatial", ops::Dims{4});
  CHECK(run_convolution("conv_input_grad", ones, three, same) == Numbers{11, 111, 111, 110});
  // Stride 3 over 6 inputs sees the first two and the fourth and fifth.
  const Operand y = {{1, 2, 1}, {2, 3}};
  const Attrs strided = attrs({3}, {{0, 0}}, {1}).with("spatial", ops::Dims{6});
  CHECK(run_convolution("conv_input_grad", y, two, strided) == Numbers{2, 20, 0, 3, 30, 0});
}

TEST_CASE("conv_kernel_grad correlates the input with the cotangent") {
  const Operand y = {{1, 4, 1}, {1, 10, 100, 1000}};
  const Attrs same = attrs({1}, {{1, 1}}, {1}).with("window", ops::Dims{3});
  CHECK(run_convolution("conv_kernel_grad", line, y, same) == Numbers{3210, 4321, 432});
  const Operand grouped_x = {{1, 1, 2}, {3, 5}};
  const Operand grouped_y = {{1, 1, 2}, {7, 11}};
  const Attrs grouped = attrs({1}, {{0, 0}}, {1}, 2).with("window", ops::Dims{1});
  CHECK(run_convolution("conv_kernel_grad", grouped_x, grouped_y, grouped) == Numbers{21, 55});
}

TEST_CASE("dot_general contracts, batches and keeps the order of free dimensions") {
  const Operand a = {{2, 3}, {1, 2, 3, 4, 5, 6}};
  const Operand b = {{2, 3}, {1, 10, 100, 2, 20, 200}};
  const auto with = [](std::vector<ops::Dims> contract, std::vector<ops::Dims> batch) -> Attrs {
    return {{"contract", std::move(contract)}, {"batch", std::move(batch)}};
  };
  CHECK(run_convolution("dot_general", a, b, with({{1}, {1}}, {{}, {}})) == Numbers{321, 642, 654, 1308});
  CHECK(run_convolution("dot_general", a, b, with({{1}, {1}}, {{0}, {0}})) == Numbers{321, 1308});
  CHECK(run_convolution("dot_general", a, b, with({{0, 1}, {0, 1}}, {{}, {}})) == Numbers{1629});
  CHECK(run_convolution("dot_general", a, b, with({{0}, {0}}, {{1}, {1}})) == Numbers{9, 120, 1500});
  CHECK(run_convolution("dot_general", {{2}, {2, 3}}, {{2}, {5, 7}}, with({{}, {}}, {{}, {}})) ==
        Numbers{10, 14, 15, 21});
}

TEST_CASE("integer products wrap in their dtype") {
  const Attrs inner = {{"contract", std::vector<ops::Dims>{{0}, {0}}}, {"batch", std::vector<ops::Dims>{{}, {}}}};
  const ir::ReferenceArray a = reference_array({uint8, {2}, {}}, {200, 3});
  const ir::ReferenceArray b = reference_array({uint8, {2}, {}}, {2, 1});
  CHECK(run_reference("dot_general", {a, b}, inner)[0].integers() == std::vector<std::int64_t>{(403) % 256});
}

}  // namespace lockstep::tests
