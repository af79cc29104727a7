#include "backends/cpu/products/gemv.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/dims.h"

// Products of few rows have the bits that docs/reproducibility.md defines, whatever the processor has.
namespace lockstep::tests {

namespace {

struct Product {
  std::int64_t rows, columns, depth;
  bool a_transposed = false, b_transposed = false;
  std::int64_t batch = 1;
};

std::string product_text(const Product& p) {
  return std::to_string(p.batch) + " of " + std::to_string(p.rows) + " x " + std::to_string(p.depth) + " x " +
         std::to_string(p.columns) + (p.a_transposed ? ", a transposed" : "") +
         (p.b_transposed ? ", b transposed" : "");
}

ir::Sample product_sample(const Product& p) {
  const Shape a = p.a_transposed ? Shape{p.batch, p.depth, p.rows} : Shape{p.batch, p.rows, p.depth};
  const Shape b = p.b_transposed ? Shape{p.batch, p.columns, p.depth} : Shape{p.batch, p.depth, p.columns};
  ir::Sample sample;
  sample.inputs = {{{float32, a, {}}, -1, 1, false}, {{float32, b, {}}, -1, 1, false}};
  sample.attrs = {{"contract", std::vector<Dims>{{p.a_transposed ? 1 : 2}, {p.b_transposed ? 2 : 1}}},
                  {"batch", std::vector<Dims>{{0}, {0}}}};
  return sample;
}

bool has_few_rows(const Product& p) {
  const ir::Sample sample = product_sample(p);
  const std::vector<ArrayType> inputs = input_types(sample);
  const std::vector<ArrayType> outputs = ir::infer_types(ops::primitives::dot_general(), inputs, sample.attrs, {});
  return backend::cpu::has_few_rows(backend::cpu::plan_product({"dot_general", sample.attrs, inputs, outputs, {}}));
}

/// One element of the result by the definition.
float element(const Product& p, const float* a, std::int64_t a_step, const float* b, std::int64_t b_step) {
  std::array<float, 16> parts{};
  const std::int64_t count = p.b_transposed ? 16 : 1;
  for (std::int64_t k = 0; k < p.depth; ++k) {
    float& part = parts[static_cast<std::size_t>(k % count)];
    part = std::fma(a[k * a_step], b[k * b_step], part);
  }
  for (std::int64_t half = count / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) {
      parts[static_cast<std::size_t>(i)] += parts[static_cast<std::size_t>(i + half)];
    }
  }
  return parts[0];
}

std::vector<float> by_definition(const Product& p, const float* a, const float* b) {
  std::vector<float> result;
  const std::int64_t a_row = p.a_transposed ? 1 : p.depth, a_step = p.a_transposed ? p.rows : 1;
  const std::int64_t b_column = p.b_transposed ? p.depth : 1, b_step = p.b_transposed ? 1 : p.columns;
  for (std::int64_t n = 0; n < p.batch; ++n, a += p.rows * p.depth, b += p.depth * p.columns) {
    for (std::int64_t i = 0; i < p.rows; ++i) {
      for (std::int64_t j = 0; j < p.columns; ++j) {
        result.push_back(element(p, a + i * a_row, a_step, b + j * b_column, b_step));
      }
    }
  }
  return result;
}

void check_bits(const Product& p) {
  REQUIRE_MESSAGE(has_few_rows(p), product_text(p));
  const ir::Sample sample = product_sample(p);
  const BoundOp bound(ops::primitives::dot_general(), sample);
  const std::vector<Memory> operands = draw_memory(sample, 17);
  const std::vector<float> expected = by_definition(p, reinterpret_cast<const float*>(operands[0].data()),
                                                    reinterpret_cast<const float*>(operands[1].data()));
  const std::vector<std::byte> result = bound.run(operands)[0];
  REQUIRE(result.size() == expected.size() * sizeof(float));
  CHECK_MESSAGE(std::memcmp(result.data(), expected.data(), result.size()) == 0, product_text(p));
}

}  // namespace

TEST_CASE(
    "products of few rows have the bits of their definition, at every number of rows and of columns in a vector") {
  if (!offers()) return skip(not_offered);
  for (std::int64_t rows = 2; rows <= 27; ++rows) {
    check_bits({rows, 512, 70});
    check_bits({rows, 21, 97});
    check_bits({rows, 13, 700, false, true});
  }
  for (std::int64_t columns = 2; columns <= 81; ++columns) {
    check_bits({5, columns, 130});
    check_bits({5, columns, 16 * 5 + columns % 16, false, true});
  }
  for (const std::int64_t depth : {65, 127, 128, 129, 1000}) check_bits({48, 1024, depth});
}

TEST_CASE(
    "products of one row have the bits of their definition, wherever the last pair of vectors and block of depth end") {
  if (!offers()) return skip(not_offered);
  for (std::int64_t columns = 15; columns <= 130; ++columns) check_bits({1, columns, 19});
  for (const std::int64_t depth : {1, 7, 8, 9, 16, 100}) {
    check_bits({1, 96, depth});
    check_bits({1, 701, depth});
    check_bits({1, 75, depth, false, true});
  }
  check_bits({1, 333, 24, true});
  check_bits({1, 200, 41, false, false, 3});
}

TEST_CASE("products of few rows with transposed first operands and with batches have the bits of their definition") {
  if (!offers()) return skip(not_offered);
  check_bits({16, 512, 100, true});
  check_bits({7, 33, 90, true});
  check_bits({6, 512, 33, false, false, 3});
  check_bits({9, 20, 150, false, true, 4});
}

TEST_CASE("which products have few rows is decided by shape") {
  CHECK(has_few_rows({48, 1024, 256}));
  CHECK_FALSE(has_few_rows({49, 1024, 256}));
  CHECK_FALSE(has_few_rows({48, 1000, 256}));
  CHECK(has_few_rows({32, 32, 64}));
  CHECK_FALSE(has_few_rows({33, 32, 64}));
  CHECK(has_few_rows({32, 1024, 512, false, true}));
  CHECK_FALSE(has_few_rows({33, 1024, 512, false, true}));
  CHECK(has_few_rows({16, 1024, 256, false, true}));
  CHECK_FALSE(has_few_rows({17, 1024, 256, false, true}));
  CHECK(has_few_rows({8, 64, 32, false, true}));
  CHECK_FALSE(has_few_rows({8, 64, 31, false, true}));
  CHECK_FALSE(has_few_rows({8, 100, 512, true, true}));
}

}  // namespace lockstep::tests
