#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/row_kernels.h>

#include "tests/backends/jit/loops.h"
#include "tests/support/dims.h"

// Loops run some rows at a time.
namespace lockstep::tests {
namespace {

struct RowsCase {
  const char* name;
  Shape shape;
  Dims spread;             ///< Dimensions of the second operand.
  std::vector<Dims> sums;  ///< Of what the loop gives, which is given too.
  std::int64_t rows;
};

std::vector<RowsCase> rows_cases() {
  return {
      {"a bias", {3, 5, 7, 40}, {3}, {}, 105},
      {"short rows and a bias", {6, 9, 3}, {2}, {}, 54},
      {"a flat array", {4, 50}, {0, 1}, {}, 4},
      {"a number for each image", {5, 3, 7, 16}, {0}, {}, 105},
      {"a number for each group of channels", {3, 40, 4, 5}, {0, 2}, {}, 480},
      {"one dimension", {300}, {0}, {}, 1},
      {"sums of columns", {4, 6, 9, 32}, {3}, {{0, 1, 2}}, 216},
      {"sums of many wide columns", {700, 200}, {1}, {{0}}, 700},
      {"sums of columns, a number for each image", {5, 20, 24}, {0}, {{0, 1}}, 100},
      {"sums of rows", {90, 300}, {1}, {{1}}, 90},
      {"sums of rows and columns", {600, 130}, {0}, {{0}, {1}}, 600},
      {"sums of images are not of rows", {5, 6, 8}, {0}, {{1, 2}}, 0},
      {"what is spread along rows alone", {5, 6, 8}, {1}, {}, 30},
      {"no elements", {0, 8}, {1}, {}, 0},
  };
}

BoundLoop bind(const backend::Backend& backend, const RowsCase& c) {
  Dims all;
  Shape small;
  for (int d = 0; d < c.shape.rank(); ++d) all.push_back(d);
  for (const std::int64_t d : c.spread) small.append(c.shape[static_cast<int>(d)]);
  std::vector<backend::ElementLoop::Result> results = {{3, {}}};
  for (const Dims& axes : c.sums) results.push_back({3, axes});
  auto loop = std::make_shared<const backend::ElementLoop>(
      std::vector<backend::ElementLoop::Operand>{{DType::float32, all}, {DType::float32, c.spread}},
      std::vector<backend::ElementLoop::Instruction>{{"mul", {}, DType::float32, {0, 1}},
                                                     {"tanh", {}, DType::float32, {2}}},
      std::move(results));
  return {backend, loop, {{DType::float32, c.shape, {}}, {DType::float32, small, {}}}, c.shape};
}

std::vector<BoundLoop::Bytes> draw_operands(const BoundLoop& bound) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<BoundLoop::Bytes> operands;
  for (const ArrayType& type : bound.inputs) {
    std::vector<float> values(static_cast<std::size_t>(type.size()));
    for (float& value : values) value = normal(random);
    const auto bytes = std::as_bytes(std::span(values));
    operands.emplace_back(bytes.begin(), bytes.end());
  }
  return operands;
}

/// The results of runs of 1, 2, ..., `most`, 1, 2, ... rows.
std::vector<BoundLoop::Bytes> run_in_pieces(const BoundLoop& bound, const std::vector<BoundLoop::Bytes>& operands,
                                            std::int64_t most) {
  const auto& loop = dynamic_cast<const backend::RowLoop&>(*bound.kernel);
  std::vector<ArrayView> in, out;
  std::vector<BoundLoop::Bytes> results;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    in.push_back(
        contiguous_view(const_cast<std::byte*>(operands[k].data()), bound.inputs[k].dtype, bound.inputs[k].shape));
  }
  for (const ArrayType& type : bound.outputs) {
    results.emplace_back(static_cast<std::size_t>(type.nbytes()), std::byte{0x5A});
    out.push_back(contiguous_view(results.back().data(), type.dtype, type.shape));
  }
  std::vector<std::byte> scratch(loop.scratch_bytes(), std::byte{0x5A});
  const backend::KernelArguments arguments{in, out, scratch.data()};
  REQUIRE(loop.lie_in_rows(arguments));
  loop.begin(arguments);
  for (std::int64_t first = 0, n = 0; first < loop.rows(); first += n) {
    n = std::min(n % most + 1, loop.rows() - first);
    loop.run_rows(arguments, first, n);
  }
  loop.finish(arguments);
  return results;
}

}  // namespace

TEST_CASE("loops run some rows at a time have the bits of a whole run") {
  for (const backend::Isa isa : usable_sets()) {
    const auto backend = backend::jit::make_backend(isa);
    for (const RowsCase& c : rows_cases()) {
      CAPTURE(std::string(c.name));
      const BoundLoop bound = bind(*backend, c);
      REQUIRE(bound.kernel != nullptr);
      const auto* loop = dynamic_cast<const backend::RowLoop*>(bound.kernel.get());
      REQUIRE(loop != nullptr);
      CHECK(loop->rows() == c.rows);
      if (c.rows == 0) continue;
      const std::vector<BoundLoop::Bytes> operands = draw_operands(bound);
      const std::vector<BoundLoop::Bytes> expected = bound.run(operands);
      for (const std::int64_t most : {1, 5, 64, 10000}) CHECK(run_in_pieces(bound, operands, most) == expected);
    }
  }
}

TEST_CASE("operands of other strides are not taken for rows") {
  for (const backend::Isa isa : usable_sets()) {
    const auto backend = backend::jit::make_backend(isa);
    const BoundLoop bound = bind(*backend, rows_cases()[0]);
    const auto& loop = dynamic_cast<const backend::RowLoop&>(*bound.kernel);
    std::vector<float> values(3 * 5 * 7 * 40);
    std::vector<ArrayView> views = {contiguous_view(values.data(), DType::float32, bound.inputs[0].shape),
                                    contiguous_view(values.data(), DType::float32, bound.inputs[1].shape)};
    CHECK(loop.lie_in_rows({views, {}, nullptr}));
    std::swap(views[0].strides[1], views[0].strides[2]);
    CHECK_FALSE(loop.lie_in_rows({views, {}, nullptr}));
  }
}

}  // namespace lockstep::tests
