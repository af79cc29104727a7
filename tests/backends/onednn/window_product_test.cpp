#include "backends/onednn/window_product.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "backends/cpu/thread_settings.h"
#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/convolution_cases.h"
#include "tests/support/dims.h"

// Convolutions of small images, computed as one product.
namespace lockstep::tests {

namespace {

/// The family's ops for which a product is made.
struct Taken {
  bool conv, input_grad, kernel_grad;
};

struct WindowCase {
  ConvolutionCase convolution;
  Taken taken;
};

Attrs square_windows(std::int64_t stride, std::int64_t low, std::int64_t high, std::int64_t dilation = 1,
                     std::int64_t groups = 1) {
  return conv_attrs({stride, stride}, {{low, high}, {low, high}}, {dilation, dilation}, groups);
}

std::vector<WindowCase> window_cases() {
  const Taken all{true, true, true}, none{false, false, false};
  return {
      {{"large kernel", {1, 4, 4, 256}, {3, 3, 256, 256}, {1, 4, 4, 256}, square_windows(1, 1, 1)}, all},
      {{"wider", {1, 2, 5, 256}, {3, 3, 256, 256}, {1, 2, 5, 256}, square_windows(1, 1, 1)}, none},
      {{"large kernel, stride 2", {1, 7, 8, 128}, {3, 3, 128, 480}, {1, 4, 4, 480}, square_windows(2, 1, 1)}, all},
      {{"smaller kernel, stride 2", {2, 7, 8, 12}, {3, 3, 12, 20}, {2, 4, 4, 20}, square_windows(2, 1, 1)},
       {false, true, false}},
      {{"smaller kernel", {2, 4, 4, 12}, {3, 3, 12, 20}, {2, 4, 4, 20}, square_windows(1, 1, 1)}, none},
      {{"kernel of medium size on two places", {3, 2, 2, 64}, {3, 3, 64, 64}, {3, 2, 2, 64}, square_windows(1, 1, 1)},
       {false, false, true}},
      {{"dilated", {2, 9, 10, 40}, {3, 3, 40, 100}, {2, 2, 2, 100}, square_windows(2, 0, 0, 3)}, {false, true, true}},
      {{"windows that reach beyond", {2, 3, 2, 96}, {3, 2, 96, 96}, {2, 4, 4, 96}, square_windows(2, 4, 2)},
       {false, true, false}},
      {{"pointwise", {3, 4, 4, 33}, {1, 1, 33, 17}, {3, 4, 4, 17}, square_windows(1, 0, 0)}, all},
      {{"pointwise with padding", {3, 3, 2, 33}, {1, 1, 33, 17}, {3, 5, 4, 17}, square_windows(1, 1, 1)}, all},
      {{"pointwise, stride 2", {3, 15, 15, 33}, {1, 1, 33, 17}, {3, 8, 8, 17}, square_windows(2, 0, 0)},
       {true, true, false}},
      {{"pointwise and wider, stride 2", {3, 17, 17, 33}, {1, 1, 33, 17}, {3, 9, 9, 17}, square_windows(2, 0, 0)},
       none},
      {{"pointwise and wider", {3, 5, 5, 33}, {1, 1, 33, 17}, {3, 5, 5, 17}, square_windows(1, 0, 0)}, none},
      {{"pointwise, groups", {3, 4, 4, 32}, {1, 1, 16, 32}, {3, 4, 4, 32}, square_windows(1, 0, 0, 1, 2)}, none},
      {{"one place of y", {1, 1, 1, 133}, {1, 1, 133, 117}, {1, 1, 1, 117}, square_windows(1, 0, 0)}, all},
      {{"one dimension", {4, 9, 33}, {1, 33, 17}, {4, 5, 17}, conv_attrs({2}, {{0, 0}}, {1}, 1)}, {true, true, false}},
      {{"three dimensions",
        {2, 3, 4, 4, 24},
        {2, 3, 3, 24, 24},
        {2, 2, 2, 2, 24},
        conv_attrs({1, 2, 2}, {{0, 0}, {1, 0}, {0, 1}}, {1, 1, 1}, 1)},
       {false, true, false}},
  };
}

bool is_product(const ir::Primitive& primitive, const ir::Sample& sample) {
  const std::vector<ArrayType> inputs = input_types(sample);
  const std::vector<ArrayType> outputs = ir::infer_types(primitive, inputs, sample.attrs, {});
  const backend::KernelRequest request{primitive.name, sample.attrs, inputs, outputs, {}};
  return backend::onednn::make_window_product(request, backend::cpu::ConvolutionGeometry(request)) != nullptr;
}

/// Three images of 3 x 4 places, whose windows are of 2 x 2.
constexpr std::int64_t images = 3, height = 3, width = 4, channels = 128, features = 1024;

/// Where the window of a place of y has its place (i, j): an element of x.
std::int64_t place(std::int64_t n, std::int64_t a, std::int64_t b, std::int64_t i, std::int64_t j) {
  return ((n * (height + 1) + a + i) * (width + 1) + b + j) * channels;
}

/// Calls visit(place in x, place in columns) for each window's places in order.
template <class Visit>
void for_each_place(Visit visit) {
  std::int64_t column = 0;
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t a = 0; a < height; ++a) {
      for (std::int64_t b = 0; b < width; ++b) {
        for (std::int64_t i = 0; i < 2; ++i) {
          for (std::int64_t j = 0; j < 2; ++j, column += channels) visit(place(n, a, b, i, j), column);
        }
      }
    }
  }
}

const ConvolutionCase& without_padding() {
  static const ConvolutionCase c{"without padding",
                                 {images, height + 1, width + 1, channels},
                                 {2, 2, channels, features},
                                 {images, height, width, features},
                                 square_windows(1, 0, 0)};
  return c;
}

std::vector<std::byte> product_with(const Memory& a, const Shape& a_shape, const Memory& b, const Shape& b_shape,
                                    std::int64_t of_a, std::int64_t of_b) {
  const BoundOp dot(ops::primitives::dot_general(), {{float32, a_shape, {}}, {float32, b_shape, {}}},
                    {{"contract", std::vector<Dims>{{of_a}, {of_b}}}, {"batch", std::vector<Dims>{{}, {}}}});
  const std::vector<ArrayView> views = {contiguous_view(a.data(), float32, a_shape),
                                        contiguous_view(b.data(), float32, b_shape)};
  return dot.run(std::span<const ArrayView>(views))[0];
}

}  // namespace

TEST_CASE("convolutions of small images as products have the reference's values, and shapes decide which are") {
  for (const WindowCase& c : window_cases()) {
    for_each_of_family(
        c.convolution, float32, [&](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
          const bool expected = primitive.name == "conv"              ? c.taken.conv
                                : primitive.name == "conv_input_grad" ? c.taken.input_grad
                                                                      : c.taken.kernel_grad;
          if (!offers()) return;
          CHECK_MESSAGE(is_product(primitive, sample) == expected, primitive.name << ", " << std::string(name));
          check_against_reference(primitive, sample, name);
        });
    for_each_of_family(c.convolution, bfloat16, [&](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
      CHECK_FALSE(is_product(primitive, sample));
    });
  }
}

TEST_CASE("convolutions of small images have the bits of a product of laid out windows, added up in row-major order") {
  if (!offers()) return skip(not_offered);
  const Shape columns_shape{images * height * width, 4 * channels}, kernel_shape{4 * channels, features},
      y_shape{images * height * width, features};
  for_each_of_family(without_padding(), float32, [&](const ir::Primitive& primitive, const ir::Sample& sample, auto) {
    REQUIRE(is_product(primitive, sample));
    const std::vector<Memory> operands = draw_memory(sample, 23);
    const std::vector<std::byte> result = BoundOp(primitive, sample).run(operands)[0];
    std::vector<std::byte> expected;
    if (primitive.name == "conv_input_grad") {
      const std::vector<std::byte> columns = product_with(operands[0], y_shape, operands[1], kernel_shape, 1, 1);
      const auto* from = reinterpret_cast<const float*>(columns.data());
      std::vector<float> x(static_cast<std::size_t>(without_padding().x.size()));
      for_each_place([&](std::int64_t to, std::int64_t column) {
        for (std::int64_t c = 0; c < channels; ++c) x[static_cast<std::size_t>(to + c)] += from[column + c];
      });
      const auto bytes = std::as_bytes(std::span(x));
      expected.assign(bytes.begin(), bytes.end());
    } else {
      const Memory columns(static_cast<std::size_t>(columns_shape.size()) * sizeof(float));
      for_each_place([&](std::int64_t from, std::int64_t column) {
        std::memcpy(columns.data() + column * 4, operands[0].data() + from * 4, channels * sizeof(float));
      });
      expected = primitive.name == "conv" ? product_with(columns, columns_shape, operands[1], kernel_shape, 1, 0)
                                          : product_with(columns, columns_shape, operands[1], y_shape, 0, 0);
    }
    CHECK_MESSAGE(result == expected, primitive.name);
  });
}

TEST_CASE("windows laid out for some images at a time give the reference's values, without a bit from other runs") {
  if (!offers()) return skip(not_offered);
  const ConvolutionCase blocks{
      "two blocks", {37, 12, 12, 40}, {5, 5, 40, 20}, {37, 6, 6, 20}, square_windows(2, 4, 3, 2)};
  const ConvolutionCase alone{
      "an image is a block", {3, 33, 30, 48}, {5, 5, 48, 9}, {3, 25, 22, 9}, square_windows(1, 0, 0, 2)};
  for (const ConvolutionCase& c : {blocks, alone}) {
    for_each_of_family(c, float32, [](const ir::Primitive& primitive, const ir::Sample& sample, const char* name) {
      BoundOp bound(primitive, sample);
      const backend::KernelRequest request{primitive.name, bound.attrs, bound.inputs, bound.outputs, {}};
      bound.kernel = backend::onednn::make_window_products(request, backend::cpu::ConvolutionGeometry(request));
      REQUIRE(bound.kernel != nullptr);
      check_against_reference(primitive, sample, bound, name);
      const std::vector<Memory> operands = draw_memory(sample, 5);
      CHECK(bound.run(operands) == bound.run(operands));
    });
  }
}

TEST_CASE("what oneDNN computes by laying out windows is computed so here, and groups are left to it") {
  if (!offers()) return skip(not_offered);
  const ConvolutionCase slow{"dilated", {30, 12, 12, 142}, {5, 5, 142, 95}, {30, 6, 6, 95}, square_windows(2, 4, 3, 2)};
  for_each_of_family(slow, float32, [](const ir::Primitive& primitive, const ir::Sample& sample, const char*) {
    if (primitive.name == "conv") return;
    const BoundOp bound(primitive, sample);
    const backend::KernelRequest request{primitive.name, bound.attrs, bound.inputs, bound.outputs, {}};
    const backend::cpu::ThreadSettings one_thread;
    const auto products = backend::onednn::make_window_products(request, backend::cpu::ConvolutionGeometry(request));
    REQUIRE(bound.kernel != nullptr);
    CHECK(bound.kernel->scratch_bytes() == products->scratch_bytes());
  });
  const ConvolutionCase groups{"groups", {2, 9, 9, 8}, {3, 3, 4, 8}, {2, 5, 5, 8}, square_windows(1, 0, 0, 2, 2)};
  for_each_of_family(groups, float32, [](const ir::Primitive& primitive, const ir::Sample& sample, const char*) {
    const BoundOp bound(primitive, sample);
    const backend::KernelRequest request{primitive.name, bound.attrs, bound.inputs, bound.outputs, {}};
    CHECK(backend::onednn::make_window_products(request, backend::cpu::ConvolutionGeometry(request)) == nullptr);
  });
}

}  // namespace lockstep::tests
