#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/backends/onednn/tree_sums.h"
#include "tests/support/convolution_cases.h"

// Winograd's tiles of several shards in one kernel: the bits that each shard's own kernel gives.
namespace lockstep::tests {

namespace {

struct ShardsCase {
  std::int64_t images, height, width, channels, features;
  std::size_t shards;
  bool in_parts = false;
};

ConvolutionCase convolution_of(const ShardsCase& c) {
  return {"",
          {c.images, c.height, c.width, c.channels},
          {3, 3, c.channels, c.features},
          {c.images, c.height, c.width, c.features},
          conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1)};
}

std::vector<ArrayView> views(const std::vector<Memory>& memory, const std::vector<ArrayType>& types) {
  std::vector<ArrayView> result;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    result.push_back(contiguous_view(memory[i].data(), types[i].dtype, types[i].shape));
  }
  return result;
}

/// x0 dy0 x1 dy1 ...
std::vector<ArrayType> repeated(const std::vector<ArrayType>& types, std::size_t times) {
  std::vector<ArrayType> result;
  for (std::size_t i = 0; i < times; ++i) result.insert(result.end(), types.begin(), types.end());
  return result;
}

void check_sum_of_grads(const ShardsCase& c) {
  for_each_of_family(convolution_of(c), float32, [&](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
    if (primitive.name != "conv_kernel_grad") return;
    const BoundOp grad(primitive, sample);
    std::vector<Memory> operands;
    std::vector<std::vector<float>> leaves;
    for (std::size_t shard = 0; shard < c.shards; ++shard) {
      std::vector<Memory> drawn = draw_memory(sample, shard);
      leaves.push_back(floats(grad.run(drawn)[0]));
      for (Memory& memory : drawn) operands.push_back(std::move(memory));
    }
    const std::vector<ArrayType> types = repeated(grad.inputs, c.shards);
    const backend::KernelRequest request{"sum_of_kernel_grads", sample.attrs, types, grad.outputs, {}};
    const std::unique_ptr<backend::Kernel> whole = onednn().make_kernel(request);
    REQUIRE(whole != nullptr);
    check_sum(request, *whole, views(operands, types), tree_sum(leaves, 0, c.shards), c.in_parts);
  });
}

bool offers_sum(const ShardsCase& c, DType dtype = float32) {
  bool result = false;
  for_each_of_family(convolution_of(c), dtype, [&](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
    if (primitive.name != "conv_kernel_grad") return;
    const std::vector<ArrayType> inputs = input_types(sample);
    const std::vector<ArrayType> outputs = ir::infer_types(primitive, inputs, sample.attrs, {});
    const std::vector<ArrayType> types = repeated(inputs, c.shards);
    result = onednn().make_kernel({"sum_of_kernel_grads", sample.attrs, types, outputs, {}}) != nullptr;
  });
  return result;
}

/// The kernel for several shards of conv and of conv_input_grad, which have one window.
template <class Visit>
void for_each_of_shards(const ShardsCase& c, DType dtype, Visit visit) {
  for_each_of_family(convolution_of(c), dtype, [&](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
    if (primitive.name == "conv_kernel_grad") return;
    const std::vector<ArrayType> one = input_types(sample);
    std::vector<ArrayType> inputs(c.shards, one[0]);
    inputs.push_back(one[1]);
    const std::vector<ArrayType> outputs(c.shards, ir::infer_types(primitive, one, sample.attrs, {})[0]);
    const std::string op = std::string(primitive.name) + "_of_shards";
    visit(primitive, sample, inputs, outputs, onednn().make_kernel({op, sample.attrs, inputs, outputs, {}}));
  });
}

void check_of_shards(const ShardsCase& c, DType dtype = float32) {
  for_each_of_shards(c, dtype,
                     [&](const ir::Primitive& primitive, const ir::Sample& sample, const auto& inputs,
                         const auto& outputs, const std::unique_ptr<backend::Kernel>& kernel) {
                       REQUIRE_MESSAGE(kernel != nullptr, primitive.name);
                       const BoundOp one(primitive, sample);
                       const std::vector<std::byte> window = draw_memory(sample, 100)[1].bytes();
                       std::vector<Memory> operands, results;
                       std::vector<std::vector<std::byte>> expected;
                       for (std::size_t shard = 0; shard < c.shards; ++shard) {
                         std::vector<Memory> drawn = draw_memory(sample, shard);
                         drawn[1] = Memory(window);
                         expected.push_back(one.run(drawn)[0]);
                         operands.push_back(std::move(drawn[0]));
                         results.emplace_back(static_cast<std::size_t>(outputs[shard].nbytes()));
                       }
                       operands.emplace_back(window);
                       const Memory scratch(kernel->scratch_bytes());
                       kernel->run({views(operands, inputs), views(results, outputs), scratch.data()});
                       for (std::size_t shard = 0; shard < c.shards; ++shard) {
                         CHECK_MESSAGE(results[shard].bytes() == expected[shard],
                                       primitive.name << ", shard " << shard);
                       }
                     });
}

}  // namespace

TEST_CASE("a sum of windows' gradients has the bits of the gradients and of a tree of additions") {
  if (!offers()) return skip(not_offered);
  for (const ShardsCase& c : std::vector<ShardsCase>{
           {.images = 2, .height = 8, .width = 8, .channels = 72, .features = 100, .shards = 8, .in_parts = true},
           {.images = 4, .height = 4, .width = 4, .channels = 136, .features = 144, .shards = 2, .in_parts = true},
           {.images = 2, .height = 7, .width = 8, .channels = 35, .features = 65, .shards = 4},
           {.images = 2, .height = 8, .width = 8, .channels = 72, .features = 100, .shards = 1}}) {
    CAPTURE(c.channels);
    check_sum_of_grads(c);
  }
}

TEST_CASE("windows' gradients are summed apart where they are of many tiles") {
  const ShardsCase few{.images = 2, .height = 8, .width = 8, .channels = 72, .features = 100, .shards = 8};
  CHECK(offers_sum(few) == offers());
  ShardsCase other = few;
  other.shards = 16;
  CHECK_FALSE(offers_sum(other));
  other.shards = 6;
  CHECK_FALSE(offers_sum(other));
  other = few;
  other.images = 4;
  CHECK_FALSE(offers_sum(other));
  other = few;
  other.channels = 2;
  CHECK_FALSE(offers_sum(other));
  CHECK_FALSE(offers_sum(few, bfloat16));
}

TEST_CASE("convolutions of several shards with one window have each shard's own bits") {
  if (!offers()) return skip(not_offered);
  const ShardsCase some{.images = 4, .height = 4, .width = 4, .channels = 136, .features = 144, .shards = 2};
  check_of_shards(some);
  ShardsCase many = some;
  many.images = 5;
  many.shards = 16;
  check_of_shards(many);
  if (!offers_bfloat16_tiles()) return skip("bfloat16 is not multiplied in Winograd's tiles");
  check_of_shards({.images = 8, .height = 16, .width = 8, .channels = 64, .features = 64, .shards = 4}, bfloat16);
}

TEST_CASE("convolutions of shards that gain little by one window are left apart") {
  const auto check_none = [](const ShardsCase& c, DType dtype) {
    for_each_of_shards(
        c, dtype,
        [](const ir::Primitive& primitive, const auto&, const auto&, const auto&,
           const std::unique_ptr<backend::Kernel>& kernel) { CHECK_MESSAGE(kernel == nullptr, primitive.name); });
  };
  const ShardsCase many_tiles{.images = 16, .height = 16, .width = 16, .channels = 64, .features = 64, .shards = 4};
  check_none(many_tiles, float32);
  const ShardsCase few_channels{.images = 4, .height = 4, .width = 4, .channels = 3, .features = 8, .shards = 4};
  check_none(few_channels, float32);
  const ShardsCase taken{.images = 4, .height = 4, .width = 4, .channels = 136, .features = 144, .shards = 2};
  check_none(taken, bfloat16);
  ShardsCase most = taken;
  most.shards = 128;
  check_none(most, float32);
}

}  // namespace lockstep::tests
