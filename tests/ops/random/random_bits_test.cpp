#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/threefry.h>

#include "engine/ops/values.h"
#include "tests/support/run_reference.h"

namespace lockstep::tests {
namespace {

using Words = std::array<std::uint32_t, 2>;

ir::ReferenceArray key(std::vector<std::uint64_t> words, const Shape& shape = {}) {
  ir::ReferenceArray array = ir::reference_zeros({DType::key, shape, {}});
  for (std::size_t i = 0; i < words.size(); ++i) array.integers()[i] = static_cast<std::int64_t>(words[i]);
  return array;
}

ir::ReferenceArray block(std::int64_t number) {
  return reference_array({int32, {}, {}}, {static_cast<double>(number)});
}

std::vector<std::uint64_t> elements(const ir::ReferenceArray& array) {
  return {array.integers().begin(), array.integers().end()};
}

std::vector<std::uint64_t> draw_bits(const std::vector<ir::ReferenceArray>& operands, const ops::Dims& shape,
                                     std::int64_t width, const Attrs& more = {}) {
  Attrs attrs = {{"shape", shape}, {"width", width}};
  for (const auto& [name, value] : more.entries()) attrs = attrs.with(name, value);
  return elements(run_reference("random_bits", operands, attrs)[0]);
}

std::uint64_t pair(std::uint64_t high, std::uint64_t low) { return (high << 32) | low; }

}  // namespace

TEST_CASE("Threefry-2x32 gives its authors' test vectors") {
  static_assert(backend::threefry2x32({0, 0}, {0, 0}) == Words{0x6b200159, 0x99ba4efe});
  static_assert(backend::threefry2x32({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
                Words{0x1cb996fc, 0xbb002be7});
  static_assert(backend::threefry2x32({0x13198a2e, 0x03707344}, {0x243f6a88, 0x85a308d3}) ==
                Words{0xc4923a9c, 0x483df7a0});
  CHECK(backend::threefry_bits({0x13198a2e, 0x03707344}, 0x243f6a8885a308d3U) == 0xc4923a9c483df7a0U);
}

TEST_CASE("random bits and keys are JAX's") {
  CHECK(draw_bits({key({42})}, {8}, 32) == std::vector<std::uint64_t>{2098992034, 2919706841, 2646866425, 2409546199,
                                                                      1935504149, 2516274904, 321304473, 3329172656});
  CHECK(draw_bits({key({0})}, {3}, 64) == std::vector<std::uint64_t>{pair(1797259609, 2579123966),
                                                                     pair(928981903, 3453687069),
                                                                     pair(4146024105, 2718843009)});
  const ir::ReferenceArray four = reference_array({uint32, {}, {}}, {4});
  CHECK(elements(run_reference("random_fold_in", {key({0}), four}, {})[0])[0] == pair(2285895361, 433833334));
}

TEST_CASE("narrow draws are the low bits of the 32-bit one") {
  const std::vector<std::uint64_t> wide = draw_bits({key({42})}, {2, 4}, 32);
  for (const std::int64_t width : {8, 16}) {
    const std::vector<std::uint64_t> narrow = draw_bits({key({42})}, {2, 4}, width);
    for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == (wide[i] & ((1U << width) - 1)));
  }
}

TEST_CASE("a draw depends on the number of elements before it alone, and each key draws on its own") {
  CHECK(draw_bits({key({42})}, {2, 2, 2}, 32) == draw_bits({key({42})}, {8}, 32));
  CHECK(draw_bits({key({42})}, {}, 32) == std::vector<std::uint64_t>{2098992034});
  std::vector<std::uint64_t> expected = draw_bits({key({7})}, {3}, 32);
  for (const std::uint64_t bits : draw_bits({key({42})}, {3}, 32)) expected.push_back(bits);
  CHECK(draw_bits({key({7, 42}, {2})}, {3}, 32) == expected);
}

TEST_CASE("blocks of a cut draw are the uncut draw, for any number of blocks") {
  const ops::Dims whole = {8, 16, 24};
  for (const std::int64_t cut : {0, 1, 2}) {
    const auto dim = static_cast<std::size_t>(cut);
    const std::vector<std::uint64_t> expected = draw_bits({key({42}), block(0)}, whole, 32, {{"cut", cut}});
    if (cut == 0) CHECK(expected == draw_bits({key({42})}, whole, 32));
    for (const std::int64_t blocks : {1, 2, 4, 8}) {
      CAPTURE(cut);
      CAPTURE(blocks);
      ops::Dims local = whole;
      local[dim] /= blocks;
      std::int64_t outer = 1, inner = local[dim];
      for (std::size_t d = 0; d < dim; ++d) outer *= whole[d];
      for (std::size_t d = dim + 1; d < whole.size(); ++d) inner *= whole[d];
      std::vector<std::uint64_t> joined(expected.size());
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::vector<std::uint64_t> part = draw_bits({key({42}), block(b)}, local, 32, {{"cut", cut}});
        for (std::int64_t i = 0; i < outer * inner; ++i) {
          joined[static_cast<std::size_t>((i / inner * blocks + b) * inner + i % inner)] =
              part[static_cast<std::size_t>(i)];
        }
      }
      CHECK(joined == expected);
    }
  }
}

TEST_CASE("the cut dimension counts as the outermost one") {
  const std::vector<std::uint64_t> rows = draw_bits({key({42})}, {4, 2, 3}, 64);
  const std::vector<std::uint64_t> cut = draw_bits({key({42}), block(0)}, {2, 3, 4}, 64, {{"cut", std::int64_t{2}}});
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 6; ++j) CHECK(cut[j * 4 + i] == rows[i * 6 + j]);
  }
}

TEST_CASE("counters go beyond 32 bits") {
  const std::uint64_t expected = backend::threefry_draw(backend::threefry_bits({0, 42}, std::uint64_t{3} << 33), 32);
  const std::vector<std::uint64_t> bits =
      draw_bits({key({42}), block(std::int64_t{3} << 24)}, {1, 512}, 32, {{"cut", std::int64_t{0}}});
  CHECK(bits[0] == expected);
}

TEST_CASE("a key's words lie in memory first word first") {
  const ir::ReferenceArray words = reference_array({uint32, {2, 2}, {}}, {0x01020304, 0x05060708, 0xffffffff, 1});
  const ir::ReferenceArray keys = run_reference("random_wrap", {words}, {})[0];
  CHECK(keys.type == ArrayType{DType::key, {2}, {}});
  CHECK(elements(keys) == std::vector<std::uint64_t>{0x0102030405060708U, 0xffffffff00000001U});
  CHECK(run_reference("random_unwrap", {keys}, {})[0].integers() == words.integers());
  CHECK(ir::reference_to_bytes(keys) == ir::reference_to_bytes(words));
}

}  // namespace lockstep::tests
