#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/aten/kernel_runs.h"

// An element's bits must not depend on where it lies nor on how many there are: a shard computes what the whole does.
namespace lockstep::tests {

namespace {

constexpr std::int64_t whole = 3000;

/// Numbers of the sample's interval with what is special among them; the same in every operand's places only by chance.
std::vector<std::byte> number_bytes(const ir::SampleInput& input, std::uint64_t seed) {
  ir::SampleInput wide = input;
  wide.type.shape = {whole};
  ir::ReferenceArray array = draw(wide, {}, seed);
  if (is_float(input.type.dtype)) {
    const double special[] = {0.0,
                              -0.0,
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN(),
                              1e-40,
                              -1e-310,
                              1e30,
                              -1e300,
                              88.5,
                              -104.2,
                              1e5};
    for (std::size_t i = seed % 7; i < array.floats().size(); i += 1 + seed % 5 + i % 11) {
      array.floats()[i] = special[(i + seed) % std::size(special)];
    }
  }
  return ir::reference_to_bytes(array);
}

/// The bytes with every NaN made the same one: its sign and payload carry no meaning.
std::vector<std::byte> canonical(const ArrayType& type, const std::vector<std::byte>& bytes) {
  if (!is_inexact(type.dtype)) return bytes;
  ir::ReferenceArray array = ir::reference_from_bytes(type, bytes);
  const auto settle = [](double x) { return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x; };
  if (is_float(type.dtype)) {
    for (double& x : array.floats()) x = settle(x);
  } else {
    for (auto& x : array.complexes()) x = {settle(x.real()), settle(x.imag())};
  }
  return ir::reference_to_bytes(array);
}

/// Results of a pointwise op on elements [first, first + count) of its operands, these `shift` elements off a 64-byte
/// boundary.
std::vector<std::byte> run_part(const ir::Primitive& primitive, const ir::Sample& sample,
                                const std::vector<std::vector<std::byte>>& operands, std::int64_t first,
                                std::int64_t count, std::int64_t shift) {
  std::vector<ArrayType> types;
  for (const ir::SampleInput& input : sample.inputs) types.push_back({input.type.dtype, {count}, {}});
  const BoundOp bound(primitive, types, sample.attrs);
  std::vector<Memory> memory;
  std::vector<ArrayView> views;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::size_t width = size_of(types[i].dtype);
    memory.emplace_back(static_cast<std::size_t>(count + shift) * width);
    std::byte* data = memory.back().data() + static_cast<std::size_t>(shift) * width;
    std::memcpy(data, operands[i].data() + static_cast<std::size_t>(first) * width,
                static_cast<std::size_t>(count) * width);
    views.push_back(contiguous_view(data, types[i].dtype, types[i].shape));
  }
  return canonical(bound.outputs[0], bound.run(std::span<const ArrayView>(views))[0]);
}

void check_positions(const ir::Primitive& primitive, const ir::Sample& sample) {
  std::vector<std::vector<std::byte>> operands;
  std::vector<ArrayType> types;
  for (const ir::SampleInput& input : sample.inputs) {
    operands.push_back(number_bytes(input, 51 + operands.size()));
    types.push_back({input.type.dtype, {whole}, {}});
  }
  const BoundOp bound(primitive, types, sample.attrs);
  const std::size_t width = size_of(bound.outputs[0].dtype);
  const std::vector<std::byte> all = run_part(primitive, sample, operands, 0, whole, 0);
  const auto check = [&](std::int64_t first, std::int64_t count, std::int64_t shift) {
    const std::vector<std::byte> part = run_part(primitive, sample, operands, first, count, shift);
    const bool same = std::memcmp(part.data(), all.data() + static_cast<std::size_t>(first) * width, part.size()) == 0;
    CHECK_MESSAGE(same, describe(primitive, sample) << " elements " << first << " to " << first + count);
  };
  for (std::int64_t count = 1; count <= 70; ++count) {
    for (const std::int64_t first : {0, 1, 7, 16, 33}) check(first + count * 40, count, first % 5);
  }
  for (const std::int64_t count : {100, 127, 256, 1000, 1025, 2500}) check(whole - count, count, 1);
}

}  // namespace

TEST_CASE("the bits of a pointwise result depend on its own operands alone") {
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    const ir::Primitive& primitive = get();
    if (has_no_kernel(primitive) || !primitive.traits.pointwise) continue;
    std::set<DType> seen;
    for (const ir::Sample& sample : primitive.samples()) {
      if (seen.insert(sample.inputs.back().type.dtype).second) check_positions(primitive, sample);
    }
  }
}

TEST_CASE("sums, products and convolutions do not depend on where their operands lie, nor on the thread") {
  const std::shared_ptr<void> settings = aten().enter_thread();
  const ArrayType image{float32, {4, 9, 10, 6}, {}};
  const ArrayType kernel{float32, {3, 3, 6, 8}, {}};
  const Attrs conv_attrs{{"strides", std::vector<std::int64_t>{1, 2}},
                         {"padding", std::vector<std::vector<std::int64_t>>{{1, 1}, {0, 1}}},
                         {"dilation", std::vector<std::int64_t>{1, 1}},
                         {"groups", std::int64_t{1}}};
  const std::vector<std::vector<std::int64_t>> last_and_first = {{1}, {0}};
  const std::vector<std::vector<std::int64_t>> none = {{}, {}};
  const Attrs dot_attrs{{"contract", last_and_first}, {"batch", none}};
  struct Case {
    const ir::Primitive* op;
    std::vector<ArrayType> types;
    Attrs attrs;
  };
  const std::vector<Case> cases = {
      {&ops::primitives::conv(), {image, kernel}, conv_attrs},
      {&ops::primitives::dot_general(), {{float32, {33, 257}, {}}, {float32, {257, 45}, {}}}, dot_attrs},
      {&ops::primitives::dot_general(), {{float64, {33, 257}, {}}, {float64, {257, 45}, {}}}, dot_attrs},
      {&ops::primitives::reduce_sum(), {{float32, {37, 1001}, {}}}, {{"axes", std::vector<std::int64_t>{0}}}},
      {&ops::primitives::reduce_sum(), {{float32, {37, 1001}, {}}}, {{"axes", std::vector<std::int64_t>{1}}}},
      {&ops::primitives::reduce_sum(), {{float32, {37, 1001}, {}}}, {{"axes", std::vector<std::int64_t>{0, 1}}}},
  };
  for (const Case& c : cases) {
    const BoundOp bound(*c.op, c.types, c.attrs);
    ir::Sample sample;
    for (const ArrayType& type : c.types) sample.inputs.push_back({type, -1, 1, false});
    const std::vector<Memory> memory = draw_memory(sample, 61);
    const auto expected = bound.run(memory);
    for (const std::size_t shift : {64U, 128U, 4096U}) {
      std::vector<Memory> moved;
      std::vector<ArrayView> views;
      for (std::size_t i = 0; i < memory.size(); ++i) {
        const std::vector<std::byte> bytes = memory[i].bytes();
        moved.emplace_back(bytes.size() + shift);
        std::memcpy(moved.back().data() + shift, bytes.data(), bytes.size());
        views.push_back(contiguous_view(moved.back().data() + shift, c.types[i].dtype, c.types[i].shape));
      }
      CHECK_MESSAGE(bound.run(std::span<const ArrayView>(views)) == expected, bound.op << " moved by " << shift);
    }
    std::vector<int> same(4, 0);
    std::vector<std::thread> threads;
    for (int& result : same) {
      threads.emplace_back([&] {
        const std::shared_ptr<void> own_settings = aten().enter_thread();
        for (int round = 0; round < 5; ++round) result += bound.run(memory) == expected ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_MESSAGE(same == std::vector<int>(4, 5), bound.op << " in four threads");
  }
}

}  // namespace lockstep::tests
