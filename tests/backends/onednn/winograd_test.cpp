#include "backends/cpu/convolutions/winograd.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/convolution_cases.h"

// Convolutions of 3 x 3 windows in Winograd's tiles.
namespace lockstep::tests {

namespace {

struct WinogradCase {
  ConvolutionCase convolution;
  bool taken;  ///< With both gradients.
};

Attrs padded(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
  return conv_attrs({1, 1}, {{top, bottom}, {left, right}}, {1, 1}, 1);
}

std::vector<WinogradCase> winograd_cases() {
  const Attrs same = padded(1, 1, 1, 1);
  return {
      {{"a block of tiles", {2, 14, 14, 32}, {3, 3, 32, 64}, {2, 14, 14, 64}, same}, true},
      {{"several blocks, the last one smaller", {5, 14, 16, 48}, {3, 3, 48, 32}, {5, 14, 16, 32}, same}, true},
      {{"odd extents and channels", {3, 9, 11, 33}, {3, 3, 33, 70}, {3, 9, 11, 70}, same}, true},
      {{"no padding", {2, 11, 14, 40}, {3, 3, 40, 48}, {2, 9, 12, 48}, padded(0, 0, 0, 0)}, true},
      {{"all the padding there can be", {2, 9, 9, 64}, {3, 3, 64, 64}, {2, 11, 11, 64}, padded(2, 2, 2, 2)}, true},
      {{"uneven padding", {2, 9, 10, 64}, {3, 3, 64, 64}, {2, 9, 9, 64}, padded(0, 2, 1, 0)}, true},
      {{"three panels of features", {4, 8, 8, 32}, {3, 3, 32, 135}, {4, 8, 8, 135}, same}, true},
      {{"a large window, few tiles", {1, 10, 10, 136}, {3, 3, 136, 144}, {1, 10, 10, 144}, same}, true},
      {{"a large window, two blocks of tiles", {3, 12, 10, 132}, {3, 3, 132, 130}, {3, 12, 10, 130}, same}, true},
      {{"one row", {40, 1, 30, 64}, {3, 3, 64, 64}, {40, 1, 30, 64}, same}, false},
      {{"few channels", {2, 14, 14, 8}, {3, 3, 8, 32}, {2, 14, 14, 32}, same}, false},
      {{"few tiles of many channels", {1, 6, 6, 256}, {3, 3, 256, 256}, {1, 6, 6, 256}, same}, false},
      {{"more padding", {2, 14, 14, 32}, {3, 3, 32, 32}, {2, 16, 16, 32}, padded(3, 1, 3, 1)}, false},
      {{"stride", {2, 14, 14, 64}, {3, 3, 64, 64}, {2, 7, 14, 64}, conv_attrs({2, 1}, {{1, 0}, {1, 1}}, {1, 1}, 1)},
       false},
      {{"dilated", {2, 14, 14, 64}, {3, 3, 64, 64}, {2, 14, 14, 64}, conv_attrs({1, 1}, {{2, 2}, {1, 1}}, {2, 1}, 1)},
       false},
      {{"groups", {2, 14, 14, 128}, {3, 3, 64, 128}, {2, 14, 14, 128}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 2)},
       false},
      {{"another window", {2, 14, 14, 64}, {3, 4, 64, 64}, {2, 14, 13, 64}, same}, false},
      {{"one dimension", {2, 60, 64}, {3, 64, 64}, {2, 60, 64}, conv_attrs({1}, {{1, 1}}, {1}, 1)}, false},
  };
}

/// Taken in bfloat16 with both gradients, where the processor has no instruction for whole tiles of matrices.
std::vector<ConvolutionCase> bfloat16_cases() {
  const Attrs same = padded(1, 1, 1, 1);
  return {
      {"a block of tiles", {4, 16, 16, 32}, {3, 3, 32, 64}, {4, 16, 16, 64}, same},
      {"several blocks, the last one smaller", {13, 12, 20, 16}, {3, 3, 16, 16}, {13, 12, 20, 16}, same},
      {"odd extents and channels", {8, 15, 14, 33}, {3, 3, 33, 35}, {8, 15, 14, 35}, same},
      {"no padding", {8, 14, 18, 40}, {3, 3, 40, 32}, {8, 12, 16, 32}, padded(0, 0, 0, 0)},
      {"all the padding there can be", {7, 14, 15, 64}, {3, 3, 64, 64}, {7, 16, 17, 64}, padded(2, 2, 2, 2)},
      {"uneven padding", {8, 15, 16, 40}, {3, 3, 40, 48}, {8, 15, 15, 48}, padded(0, 2, 1, 0)},
      {"three panels of features", {6, 16, 12, 16}, {3, 3, 16, 135}, {6, 16, 12, 135}, same},
      {"a large window, two blocks of tiles", {5, 16, 16, 68}, {3, 3, 68, 130}, {5, 16, 16, 130}, same},
  };
}

/// In tiles of bfloat16, gradients of the window in float32.
template <class Check>
void for_each_of_bfloat16(const ConvolutionCase& c, Check check) {
  for_each_of_family(c, bfloat16, [&](const ir::Primitive& primitive, ir::Sample sample, const char* name) {
    if (primitive.name == "conv_kernel_grad") sample.attrs = sample.attrs.with("dtype", float32);
    check(primitive, sample, name);
  });
}

bool is_tiled(const ir::Primitive& primitive, const ir::Sample& sample) {
  const std::vector<ArrayType> inputs = input_types(sample);
  const std::vector<ArrayType> outputs = ir::infer_types(primitive, inputs, sample.attrs, {});
  const backend::KernelRequest request{primitive.name, sample.attrs, inputs, outputs, {}};
  return backend::cpu::make_winograd(request, backend::cpu::ConvolutionGeometry(request),
                                     backend::onednn::bfloat16_products()) != nullptr;
}

/// Whole numbers of -4 to 4, multiples of 4 in the second operand, whose halves of halves are whole.
std::vector<Memory> whole_numbers(const BackendOp& bound) {
  std::vector<Memory> operands;
  std::uint64_t state = 5;
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<float> values(static_cast<std::size_t>(bound.inputs[i].size()));
    for (float& value : values) {
      state = state * 6364136223846793005 + 1442695040888963407;
      value = static_cast<float>(static_cast<std::int64_t>(state >> 33) % 5 - 2) * (i == 1 ? 4.0F : 1.0F);
    }
    operands.emplace_back(std::as_bytes(std::span(values)));
  }
  return operands;
}

/// As those of another shape, one image behind the other, of which `count` are taken from `first` on.
Memory some_images(const Memory& all, const ArrayType& type, std::int64_t first, std::int64_t count) {
  const auto image = static_cast<std::size_t>(type.nbytes() / type.shape[0]);
  return Memory(std::span<const std::byte>(all.data() + static_cast<std::size_t>(first) * image,
                                           static_cast<std::size_t>(count) * image));
}

}  // namespace

TEST_CASE("convolutions in Winograd's tiles have the reference's values, and shapes decide which are") {
  for (const WinogradCase& c : winograd_cases()) {
    const auto check = [&](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
      CHECK_MESSAGE(is_tiled(primitive, sample) == (c.taken && offers()), primitive.name << ", " << std::string(name));
      if (c.taken && offers()) check_against_reference(primitive, sample, name);
    };
    for_each_of_family(c.convolution, float32, check);
    for_each_of_family(c.convolution, float16, [](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
      CHECK_FALSE(is_tiled(primitive, sample));
    });
  }
}

TEST_CASE("bfloat16 is multiplied in float32 in Winograd's tiles, and rounded once") {
  for (const ConvolutionCase& c : bfloat16_cases()) {
    for_each_of_bfloat16(c, [](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
      CHECK_MESSAGE(is_tiled(primitive, sample) == offers_bfloat16_tiles(),
                    primitive.name << ", " << std::string(name));
      if (!offers_bfloat16_tiles()) return;
      const BoundOp bound(primitive, sample);
      const bool is_rounded = bound.outputs[0].dtype == bfloat16;
      check_on(draw_memory(sample, 17), primitive, bound, is_rounded ? 0.004 : 1e-3, name);
    });
  }
  for_each_of_family(bfloat16_cases()[0], bfloat16, [](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
    if (primitive.name == "conv_kernel_grad") CHECK_FALSE(is_tiled(primitive, sample));
  });
  for (const WinogradCase& c : winograd_cases()) {
    if (c.taken || c.convolution.name == std::string("few channels")) continue;
    for_each_of_bfloat16(c.convolution, [](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
      CHECK_MESSAGE(!is_tiled(primitive, sample), primitive.name << ", " << std::string(name));
    });
  }
}

TEST_CASE("convolutions in Winograd's tiles are exact where all that they add is") {
  if (!offers()) return skip(not_offered);
  for (const WinogradCase& c : winograd_cases()) {
    if (!c.taken) continue;
    for_each_of_family(c.convolution, float32,
                       [&](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
                         REQUIRE(is_tiled(primitive, sample));
                         const BoundOp bound(primitive, sample);
                         check_on(whole_numbers(bound), primitive, bound, 0, name);
                       });
  }
}

TEST_CASE("an image's bits do not depend on how many are convolved with it in Winograd's tiles") {
  const auto check = [](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
    if (primitive.name == "conv_kernel_grad") return;
    const BoundOp whole(primitive, sample);
    const std::vector<Memory> operands = draw_memory(sample, 3);
    const std::vector<std::byte> expected = whole.run(operands)[0];
    const std::int64_t images = whole.inputs[0].shape[0];
    std::vector<std::byte> joined;
    for (const std::int64_t first : {std::int64_t{0}, images / 2}) {
      const std::int64_t count = first == 0 ? images / 2 : images - images / 2;
      ir::Sample some = sample;
      some.inputs[0].type.shape = sample.inputs[0].type.shape.with(0, count);
      REQUIRE(is_tiled(primitive, some));
      std::vector<Memory> given;
      given.push_back(some_images(operands[0], whole.inputs[0], first, count));
      given.emplace_back(operands[1].bytes());
      const std::vector<std::byte> part = BoundOp(primitive, some).run(given)[0];
      joined.insert(joined.end(), part.begin(), part.end());
    }
    CHECK_MESSAGE(joined == expected, primitive.name);
  };
  if (offers()) for_each_of_family(winograd_cases()[1].convolution, float32, check);
  if (offers_bfloat16_tiles()) for_each_of_bfloat16(bfloat16_cases()[1], check);
}

TEST_CASE("no infinity or NaN is lost in Winograd's tiles") {
  for (const float bad : {HUGE_VALF, -HUGE_VALF, NAN}) {
    const auto check = [&](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
      const BoundOp bound(primitive, sample);
      const std::vector<Memory> operands = draw_memory(sample, 9);
      const std::size_t size = size_of(bound.inputs[0].dtype);
      const auto bits = std::bit_cast<std::array<std::byte, 4>>(bad);  // of a bfloat16 its upper half
      std::memcpy(operands[0].data() + 4001 * size, bits.data() + 4 - size, size);
      std::vector<ir::ReferenceArray> inputs;
      for (std::size_t i = 0; i < 2; ++i) {
        inputs.push_back(ir::reference_from_bytes(bound.inputs[i], operands[i].bytes()));
      }
      std::vector<ir::ReferenceArray> expected = {ir::reference_zeros(bound.outputs[0])};
      primitive.reference({inputs, sample.attrs, expected});
      const ir::ReferenceArray result = ir::reference_from_bytes(bound.outputs[0], bound.run(operands)[0]);
      std::int64_t met = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(bound.outputs[0].size()); ++i) {
        if (std::isfinite(expected[0].floats()[i])) continue;
        CHECK_FALSE(std::isfinite(result.floats()[i]));
        ++met;
      }
      CHECK(met > 0);
    };
    if (offers()) for_each_of_family(winograd_cases()[0].convolution, float32, check);
    if (offers_bfloat16_tiles()) for_each_of_bfloat16(bfloat16_cases()[0], check);
  }
}

}  // namespace lockstep::tests
