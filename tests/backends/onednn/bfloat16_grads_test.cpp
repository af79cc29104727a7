#include "backends/cpu/convolutions/bfloat16_grads.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "backends/onednn/widened.h"
#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/convolution_cases.h"

// Gradients of convolutions in bfloat16 by products of pairs.
namespace lockstep::tests {

namespace {

struct GradCase {
  ConvolutionCase convolution;
  bool of_kernel, of_x;  ///< Whether that gradient is taken.
};

Attrs attrs(std::vector<std::int64_t> strides, std::vector<std::vector<std::int64_t>> padding,
            std::vector<std::int64_t> dilation = {1, 1}) {
  return conv_attrs(std::move(strides), std::move(padding), std::move(dilation), 1);
}

std::vector<GradCase> grad_cases() {
  const std::vector<std::vector<std::int64_t>> same = {{1, 1}, {1, 1}};
  return {
      {{"whole vectors", {3, 8, 8, 16}, {3, 3, 16, 32}, {3, 8, 8, 32}, attrs({1, 1}, same)}, true, false},
      {{"odd columns", {2, 7, 9, 16}, {3, 3, 16, 16}, {2, 7, 9, 16}, attrs({1, 1}, same)}, true, false},
      {{"odd channels", {2, 9, 8, 19}, {4, 3, 19, 37}, {2, 8, 8, 37}, attrs({1, 1}, same)}, true, false},
      {{"blocks of images", {23, 30, 33, 20}, {2, 3, 20, 24}, {23, 29, 31, 24}, attrs({1, 1}, {{0, 0}, {0, 0}})},
       true,
       false},
      {{"steps", {3, 11, 12, 20}, {3, 3, 20, 18}, {3, 6, 6, 18}, attrs({2, 2}, {{1, 1}, {0, 1}})}, true, true},
      {{"uneven steps", {2, 12, 13, 8}, {3, 5, 8, 40}, {2, 12, 4, 40}, attrs({1, 3}, {{1, 1}, {1, 1}})}, true, true},
      {{"steps and dilation", {2, 14, 15, 9}, {3, 3, 9, 33}, {2, 7, 8, 33}, attrs({2, 2}, {{2, 2}, {2, 2}}, {2, 2})},
       true,
       true},
      {{"windows apart", {2, 13, 14, 8}, {2, 2, 8, 96}, {2, 4, 4, 96}, attrs({3, 4}, {{0, 0}, {0, 1}})}, true, true},
      {{"places that no window reads", {2, 14, 13, 8}, {3, 3, 8, 48}, {2, 4, 4, 48}, attrs({3, 3}, {{0, 0}, {0, 0}})},
       true,
       true},
      {{"more padding than window", {2, 3, 5, 8}, {2, 2, 8, 48}, {2, 5, 6, 48}, attrs({2, 2}, {{3, 4}, {4, 3}})},
       true,
       true},
      {{"one column", {5, 6, 1, 8}, {3, 3, 8, 32}, {5, 3, 1, 32}, attrs({2, 2}, same)}, true, true},
      {{"one dimension", {4, 31, 10}, {5, 10, 40}, {4, 14, 40}, conv_attrs({2}, {{0, 1}}, {1}, 1)}, true, true},
      {{"few channels", {2, 8, 8, 3}, {3, 3, 3, 16}, {2, 8, 8, 16}, attrs({1, 1}, same)}, false, false},
      {{"short sums", {2, 9, 9, 16}, {3, 3, 16, 8}, {2, 3, 3, 8}, attrs({3, 3}, {{0, 0}, {0, 0}})}, true, false},
      {{"many channels", {1, 8, 8, 136}, {3, 3, 136, 136}, {1, 4, 4, 136}, attrs({2, 2}, {{0, 1}, {0, 1}})},
       false,
       false},
      {{"a place a window", {2, 8, 8, 32}, {1, 1, 32, 32}, {2, 8, 8, 32}, attrs({1, 1}, {{0, 0}, {0, 0}})},
       false,
       false},
      {{"groups", {2, 8, 8, 32}, {3, 3, 16, 32}, {2, 8, 8, 32}, conv_attrs({1, 1}, same, {1, 1}, 2)}, false, false},
  };
}

bool is_taken(const ir::Primitive& primitive, const ir::Sample& sample) {
  const std::vector<ArrayType> inputs = input_types(sample);
  const std::vector<ArrayType> outputs = ir::infer_types(primitive, inputs, sample.attrs, {});
  const backend::KernelRequest request{primitive.name, sample.attrs, inputs, outputs, {}};
  return backend::cpu::make_bfloat16_grad(request, backend::cpu::ConvolutionGeometry(request),
                                          backend::onednn::bfloat16_products()) != nullptr;
}

bool are_offered() { return offers() && backend::onednn::bfloat16_products() == backend::cpu::Bfloat16Products::pairs; }

std::uint16_t bfloat16_of(float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); }

/// -1, 0 and 1, or without 0; products of these and their sums are exact in float32.
Memory signs(const ArrayType& type, std::uint64_t seed, bool with_zeros) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(type.size()));
  for (std::uint16_t& value : values) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    const auto drawn = static_cast<std::int64_t>(seed >> 40);
    value = bfloat16_of(static_cast<float>(with_zeros ? drawn % 3 - 1 : drawn % 2 * 2 - 1));
  }
  return Memory(std::as_bytes(std::span(values)));
}

/// Checks that the results are the reference's, which rounds none, bit for bit in float32.
void check_exact(const ir::Primitive& primitive, const BoundOp& bound, const std::vector<Memory>& operands,
                 const std::string& name) {
  const double room = bound.outputs[0].dtype == float32 ? 0 : 1.0 / 256;
  check_on(operands, primitive, bound, room, name);
}

/// Calls visit(primitive, sample, whether it is to be taken, name) for both gradients, the kernel's in both dtypes.
template <class Visit>
void for_each_gradient(Visit visit) {
  for (const GradCase& c : grad_cases()) {
    for_each_of_family(c.convolution, bfloat16,
                       [&](const ir::Primitive& primitive, const ir::Sample& sample, const std::string& name) {
                         if (primitive.name == "conv_input_grad") visit(primitive, sample, c.of_x, name);
                         if (primitive.name != "conv_kernel_grad") return;
                         visit(primitive, sample, c.of_kernel, name);
                         ir::Sample wide = sample;
                         wide.attrs = sample.attrs.with("dtype", float32);
                         visit(primitive, wide, c.of_kernel, name + " in float32");
                       });
  }
}

}  // namespace

TEST_CASE("shapes decide which gradients in bfloat16 are made of pairs, and they have the reference's values") {
  for_each_gradient([](const ir::Primitive& primitive, const ir::Sample& sample, bool taken, const std::string& name) {
    CHECK_MESSAGE(is_taken(primitive, sample) == (taken && are_offered()), primitive.name << ", " << name);
    if (taken && are_offered()) check_against_reference(primitive, sample, name);
  });
}

TEST_CASE("gradients made of pairs are exact where all that they add is, and the same in each run") {
  if (!are_offered()) return skip("bfloat16 is not multiplied in pairs");
  for_each_gradient([](const ir::Primitive& primitive, const ir::Sample& sample, bool taken, const std::string& name) {
    if (!taken) return;
    const BoundOp bound(primitive, sample);
    std::vector<Memory> operands;
    for (std::size_t i = 0; i < 2; ++i) operands.push_back(signs(bound.inputs[i], 3 + i, true));
    check_exact(primitive, bound, operands, name);
    CHECK(bound.run(operands) == bound.run(operands));
  });
}

TEST_CASE("an infinity of the first operand reaches no other places than in the definition") {
  if (!are_offered()) return skip("bfloat16 is not multiplied in pairs");
  for_each_gradient([](const ir::Primitive& primitive, const ir::Sample& sample, bool taken, const std::string& name) {
    if (!taken) return;
    const BoundOp bound(primitive, sample);
    std::vector<Memory> operands;
    for (std::size_t i = 0; i < 2; ++i) operands.push_back(signs(bound.inputs[i], 5 + i, false));
    // In the last column, which is nobody's partner.
    const Shape& shape = bound.inputs[0].shape;
    const std::int64_t last = (shape.dim(-2) - 1) * shape.dim(-1);
    reinterpret_cast<std::uint16_t*>(operands[0].data())[last] = bfloat16_of(std::numeric_limits<float>::infinity());
    check_exact(primitive, bound, operands, name);
  });
}

TEST_CASE("an infinity of dy is multiplied by no row of padding") {
  if (!are_offered()) return skip("bfloat16 is not multiplied in pairs");
  for_each_gradient([](const ir::Primitive& primitive, const ir::Sample& sample, bool, const std::string& name) {
    if (primitive.name != "conv_kernel_grad" || !name.starts_with("whole vectors")) return;
    const BoundOp bound(primitive, sample);
    std::vector<Memory> operands;
    for (std::size_t i = 0; i < 2; ++i) operands.push_back(signs(bound.inputs[i], 5 + i, false));
    const Shape& shape = bound.inputs[1].shape;  // of its first and last rows, a place in the middle
    for (const std::int64_t row : {std::int64_t{0}, shape[1] - 1}) {
      const std::int64_t at = (row * shape[2] + shape[2] / 2) * shape[3] + row;
      reinterpret_cast<std::uint16_t*>(operands[1].data())[at] = bfloat16_of(std::numeric_limits<float>::infinity());
    }
    check_exact(primitive, bound, operands, name);
  });
}

TEST_CASE("gradients in other dtypes are not made of pairs") {
  for (const DType dtype : {float32, float16}) {
    for_each_of_family(grad_cases()[4].convolution, dtype,
                       [](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
                         CHECK_FALSE(is_taken(primitive, sample));
                       });
  }
}

}  // namespace lockstep::tests
