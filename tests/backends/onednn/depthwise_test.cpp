#include "backends/cpu/convolutions/depthwise.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/convolution_cases.h"

// Convolutions of a channel a group.
namespace lockstep::tests {

namespace {

std::vector<ConvolutionCase> depthwise_cases() {
  return {
      {"whole vectors", {3, 9, 8, 32}, {3, 3, 1, 32}, {3, 9, 8, 32}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 32)},
      {"odd channels", {2, 9, 8, 19}, {4, 3, 1, 19}, {2, 8, 8, 19}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 19)},
      {"dilated", {2, 12, 13, 24}, {3, 5, 1, 24}, {2, 8, 9, 24}, conv_attrs({1, 1}, {{0, 0}, {2, 2}}, {2, 2}, 24)},
      {"steps", {2, 11, 12, 20}, {3, 3, 1, 20}, {2, 6, 4, 20}, conv_attrs({2, 3}, {{1, 1}, {0, 0}}, {1, 1}, 20)},
      {"steps and dilation",
       {2, 15, 12, 8},
       {3, 2, 1, 8},
       {2, 6, 5, 8},
       conv_attrs({2, 3}, {{1, 1}, {2, 3}}, {3, 4}, 8)},
      {"features a channel",
       {2, 7, 9, 6},
       {3, 3, 1, 18},
       {2, 7, 9, 18},
       conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 6)},
      {"many features a channel",
       {2, 7, 9, 3},
       {3, 3, 1, 33},
       {2, 4, 5, 33},
       conv_attrs({2, 2}, {{1, 1}, {1, 1}}, {1, 1}, 3)},
      {"places that no window reads",
       {2, 8, 8, 5},
       {2, 2, 1, 5},
       {2, 2, 2, 5},
       conv_attrs({4, 4}, {{0, 0}, {0, 0}}, {1, 1}, 5)},
      {"more padding than window",
       {1, 3, 3, 7},
       {2, 2, 1, 7},
       {1, 8, 8, 7},
       conv_attrs({1, 1}, {{3, 3}, {3, 3}}, {1, 1}, 7)},
      {"wide windows",
       {1, 20, 30, 17},
       {7, 9, 1, 17},
       {1, 20, 30, 17},
       conv_attrs({1, 1}, {{3, 3}, {4, 4}}, {1, 1}, 17)},
      {"one dimension", {4, 31, 10}, {5, 1, 20}, {4, 14, 20}, conv_attrs({2}, {{0, 1}}, {1}, 10)},
      {"one place", {2, 1, 1, 4}, {1, 1, 1, 4}, {2, 1, 1, 4}, conv_attrs({1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 4)},
  };
}

/// Bound to the kernel of depthwise.h, whichever is chosen; that is null where there is none.
BoundOp bind(const ir::Primitive& primitive, const ir::Sample& sample) {
  BoundOp bound(primitive, sample);
  const backend::KernelRequest request{primitive.name, bound.attrs, bound.inputs, bound.outputs, {}};
  bound.kernel = backend::cpu::make_depthwise(request, backend::cpu::ConvolutionGeometry(request));
  return bound;
}

}  // namespace

TEST_CASE("convolutions of a channel a group and both gradients have the reference's values") {
  if (!offers()) return skip(not_offered);
  for (const ConvolutionCase& c : depthwise_cases()) {
    for_each_of_family(c, float32, [](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
      const BoundOp bound = bind(primitive, sample);
      const bool is_left = std::string(name) == "many features a channel" && primitive.name != "conv_input_grad";
      REQUIRE_MESSAGE((bound.kernel == nullptr) == is_left, primitive.name << ", " << std::string(name));
      if (is_left) return;
      check_against_reference(primitive, sample, bound, primitive.name + ", " + name);
      const std::vector<Memory> operands = draw_memory(sample, 9);
      CHECK(bound.run(operands) == bound.run(operands));
    });
  }
}

TEST_CASE("a NaN reaches the places whose windows hold it, and its own channel alone") {
  if (!offers()) return skip(not_offered);
  const ConvolutionCase c{
      "", {1, 5, 5, 3}, {3, 3, 1, 3}, {1, 5, 5, 3}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 3)};
  for_each_of_family(c, float32, [](const ir::Primitive& primitive, const ir::Sample& sample, const char*) {
    if (primitive.name == "conv_kernel_grad") return;
    const BoundOp bound = bind(primitive, sample);
    const std::vector<Memory> operands = draw_memory(sample, 2);
    reinterpret_cast<float*>(operands[0].data())[(1 * 5 + 1) * 3 + 2] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<std::byte> result = bound.run(operands)[0];
    const auto* y = reinterpret_cast<const float*>(result.data());
    for (std::ptrdiff_t i = 0; i < 75; ++i) {
      const bool is_near = i / 15 <= 2 && i / 3 % 5 <= 2 && i % 3 == 2;
      CHECK(std::isnan(y[i]) == is_near);
    }
  });
}

TEST_CASE("groups of several channels, one channel alone, other dtypes and three dimensions are left to others") {
  const std::vector<ConvolutionCase> others = {
      {"groups", {2, 5, 5, 8}, {3, 3, 2, 8}, {2, 5, 5, 8}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 4)},
      {"one channel", {2, 5, 5, 1}, {3, 3, 1, 4}, {2, 5, 5, 4}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1)},
      {"three dimensions",
       {1, 4, 4, 4, 4},
       {2, 2, 2, 1, 4},
       {1, 3, 3, 3, 4},
       conv_attrs({1, 1, 1}, {{0, 0}, {0, 0}, {0, 0}}, {1, 1, 1}, 4)},
  };
  const auto is_left = [](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
    CHECK_MESSAGE(bind(primitive, sample).kernel == nullptr, primitive.name << ", " << std::string(name));
  };
  for (const ConvolutionCase& c : others) for_each_of_family(c, float32, is_left);
  for_each_of_family(depthwise_cases()[0], bfloat16, is_left);
}

}  // namespace lockstep::tests
