#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/convolution_cases.h"
#include "tests/support/dims.h"

// The parts of a large kernel, which several threads run, compute what the whole one does, bit for bit.
namespace lockstep::tests {

namespace {

enum class Cut { yes, no, where_bits_allow };

struct PartsCase {
  const ir::Primitive* op;
  Shape first, second;
  Attrs attrs;
  Cut cut;
};

PartsCase product_parts(const Shape& a, const Shape& b, std::int64_t of_a, std::int64_t of_b,
                        Cut cut = Cut::where_bits_allow) {
  return {&ops::primitives::dot_general(), a, b, contraction(of_a, of_b), cut};
}

PartsCase convolution_parts(const Shape& x, const Shape& kernel, const Attrs& attrs, Cut cut = Cut::yes) {
  return {&ops::primitives::conv(), x, kernel, attrs, cut};
}

/// Cut by rows: in tiles, of two images, at every other row, behind padding that fills no window, of a large window, of
/// one long row; and too small for its kernel.
std::vector<PartsCase> few_images() {
  const Attrs same = conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1);
  const Cut any = Cut::where_bits_allow;
  return {convolution_parts({1, 64, 64, 48}, {3, 3, 48, 64}, same),
          convolution_parts({2, 50, 40, 48}, {3, 3, 48, 64}, same),
          convolution_parts({1, 70, 66, 24}, {3, 3, 24, 40}, conv_attrs({1, 2}, {{1, 1}, {0, 1}}, {1, 1}, 1)),
          convolution_parts({1, 65, 67, 24}, {3, 3, 24, 40}, conv_attrs({2, 2}, {{0, 3}, {2, 2}}, {1, 1}, 1)),
          convolution_parts({1, 224, 224, 3}, {7, 7, 3, 64}, conv_attrs({2, 2}, {{3, 3}, {3, 3}}, {1, 1}, 1)),
          convolution_parts({1, 1, 1024, 64}, {1, 3, 64, 128}, conv_attrs({1, 1}, {{0, 0}, {64, 64}}, {1, 64}, 1), any),
          convolution_parts({1, 60, 60, 64}, {1, 1, 64, 96}, conv_attrs({1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1)),
          convolution_parts({1, 60, 60, 64}, {3, 3, 16, 128}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 4), any),
          convolution_parts({1, 80, 80, 64}, {5, 5, 1, 64}, conv_attrs({1, 1}, {{2, 2}, {2, 2}}, {1, 1}, 64), any),
          convolution_parts({1, 14, 14, 256}, {3, 3, 256, 256}, same, Cut::no)};
}

std::vector<PartsCase> parts_cases() {
  const Attrs batched = {{"contract", std::vector<Dims>{{2}, {1}}}, {"batch", std::vector<Dims>{{0}, {0}}}};
  const Attrs attrs = conv_attrs({1, 2}, {{1, 1}, {0, 1}}, {1, 1}, 1);
  const Shape x = {11, 28, 30, 24}, kernel = {3, 3, 24, 40}, y = {11, 28, 15, 40};
  const Attrs tiled = conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1);
  const Shape tiled_x = {11, 30, 28, 48}, tiled_kernel = {3, 3, 48, 64}, tiled_y = {11, 30, 28, 64};
  return {product_parts({1030, 300}, {300, 130}, 1, 0, Cut::yes),
          product_parts({1030, 300}, {130, 300}, 1, 1, Cut::yes),
          product_parts({300, 1030}, {300, 130}, 0, 0, Cut::yes),
          product_parts({300, 1030}, {130, 300}, 0, 1, Cut::yes),
          product_parts({300, 1033}, {300, 130}, 0, 0),
          product_parts({130, 300}, {300, 1030}, 1, 0),
          product_parts({64, 2100}, {2100, 515}, 1, 0),
          product_parts({2100, 520}, {2100, 64}, 0, 0),
          product_parts({2100, 64}, {2100, 520}, 0, 0),
          product_parts({515, 2100}, {2100, 17}, 1, 0),
          product_parts({513, 4200}, {512, 4200}, 1, 1),
          product_parts({1025, 4200}, {4200, 33}, 1, 0),
          {&ops::primitives::dot_general(), {13, 100, 90}, {13, 90, 110}, batched, Cut::yes},
          {&ops::primitives::conv(), x, kernel, attrs, Cut::yes},
          {&ops::primitives::conv_input_grad(), y, kernel, attrs.with("spatial", Dims{28, 30}), Cut::yes},
          {&ops::primitives::conv_kernel_grad(), x, y, attrs.with("window", Dims{3, 3}), Cut::no},
          // In the kernel's own blocks of images, the last of fewer: oneDNN's, windows laid out, a channel a group.
          convolution_parts({17, 40, 40, 32}, {3, 3, 32, 32}, conv_attrs({1, 1}, {{3, 3}, {3, 3}}, {3, 3}, 1)),
          {&ops::primitives::conv_input_grad(),
           {17, 40, 40, 32},
           {3, 3, 32, 32},
           conv_attrs({1, 1}, {{3, 3}, {3, 3}}, {3, 3}, 1).with("spatial", Dims{40, 40}),
           Cut::yes},
          convolution_parts({19, 60, 60, 64}, {5, 5, 1, 64}, conv_attrs({1, 1}, {{4, 4}, {4, 4}}, {2, 2}, 64)),
          {&ops::primitives::conv(), tiled_x, tiled_kernel, tiled, Cut::yes},
          {&ops::primitives::conv_input_grad(), tiled_y, tiled_kernel, tiled.with("spatial", Dims{30, 28}), Cut::yes},
          product_parts({1024, 8}, {8, 64}, 1, 0, Cut::no),
          product_parts({200, 400}, {400, 200}, 1, 0, Cut::no)};
}

}  // namespace

TEST_CASE("parts of products and convolutions, in any order, have the bits of the whole") {
  if (!offers()) return skip(not_offered);
  const std::shared_ptr<void> settings = onednn().enter_thread();
  std::vector<PartsCase> all = parts_cases();
  std::ranges::copy(few_images(), std::back_inserter(all));
  for (const PartsCase& c : all) {
    const BackendOp bound(onednn(), *c.op, {{float32, c.first, {}}, {float32, c.second, {}}}, c.attrs);
    CAPTURE(bound.op);
    CAPTURE(to_string(bound.inputs[0]));
    CAPTURE(to_string(bound.inputs[1]));
    REQUIRE(bound.kernel != nullptr);
    std::vector<std::unique_ptr<backend::Kernel>> parts =
        onednn().make_parts({bound.op, bound.attrs, bound.inputs, bound.outputs, {}}, *bound.kernel);
    CHECK(parts.size() <= 16);
    if (c.cut == Cut::no) CHECK(parts.empty());
    if (c.cut == Cut::yes && backend::usable_isa() == backend::Isa::avx512) CHECK(parts.size() > 1);
    if (parts.empty()) continue;
    const std::vector<Memory> operands = draw_operands(bound, 5);
    std::vector<ArrayView> inputs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      inputs.push_back(contiguous_view(operands[i].data(), float32, bound.inputs[i].shape));
    }
    const Memory result(static_cast<std::size_t>(bound.outputs[0].nbytes()));
    const ArrayView output = contiguous_view(result.data(), float32, bound.outputs[0].shape);
    std::reverse(parts.begin(), parts.end());
    for (const std::unique_ptr<backend::Kernel>& part : parts) {
      const Memory scratch(part->scratch_bytes());
      part->run({inputs, {&output, 1}, scratch.data()});
    }
    CHECK(result.bytes() == bound.run(operands)[0]);
  }
}

TEST_CASE("a large product whose first operand is transposed is exact where all that it adds is") {
  if (!offers()) return skip(not_offered);
  const std::shared_ptr<void> settings = onednn().enter_thread();
  const std::int64_t depth = 260, rows = 1536, columns = 24;
  const BackendOp bound(onednn(), ops::primitives::dot_general(),
                        {{float32, {depth, rows}, {}}, {float32, {depth, columns}, {}}}, contraction(0, 0));
  REQUIRE(bound.kernel != nullptr);
  const auto integers = [](std::int64_t count, std::int64_t step) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * step / 7 % 5) - 2;
    return values;
  };
  const std::vector<float> a = integers(depth * rows, 3), b = integers(depth * columns, 11);
  std::vector<float> expected(static_cast<std::size_t>(rows * columns));
  for (std::size_t k = 0; k < depth; ++k) {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) expected[i * columns + j] += a[k * rows + i] * b[k * columns + j];
    }
  }
  std::vector<Memory> operands;
  for (const std::vector<float>* values : {&a, &b}) operands.emplace_back(std::as_bytes(std::span(*values)));
  CHECK(bound.run(operands)[0] == Memory(std::as_bytes(std::span(expected))).bytes());
}

}  // namespace lockstep::tests
