#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/ops/primitives.h"
#include "tests/ops/numbers.h"

namespace lockstep::tests {

namespace {

double flops(const std::string& op, const std::vector<ArrayType>& inputs, const Attrs& attrs = {}) {
  const ir::Primitive& primitive = *ops::find_primitive(op);
  const std::vector<ArrayType> outputs = ir::infer_types(primitive, inputs, attrs, {});
  return ir::flops_of(primitive, {inputs, outputs, attrs});
}

ArrayType f32(const Shape& shape) { return {DType::float32, shape, {}}; }

}  // namespace

TEST_CASE("arithmetic operations: one for each element of pointwise ops, none for moves") {
  CHECK(flops("add", {f32({3, 5}), f32({3, 5})}) == 15);
  CHECK(flops("tanh", {f32({7})}) == 7);
  CHECK(flops("transpose", {f32({3, 5})}, {{"permutation", Dims{1, 0}}}) == 0);
  CHECK(flops("reshape", {f32({3, 5})}, {{"shape", Dims{15}}}) == 0);
  CHECK(flops("broadcast_in_dim", {f32({5})}, {{"shape", Dims{3, 5}}, {"dims", Dims{1}}}) == 0);
}

TEST_CASE("arithmetic operations of reductions: one for each element of the operand") {
  CHECK(flops("reduce_sum", {f32({3, 5})}, {{"axes", Dims{0}}}) == 15);
  CHECK(flops("reduce_max", {f32({3, 5})}, {{"axes", Dims{0, 1}}}) == 15);
  CHECK(flops("argmax", {f32({3, 5})}, {{"axis", std::int64_t{1}}, {"dtype", DType::int32}}) == 15);
  CHECK(flops("cumsum", {f32({3, 5})}, {{"axis", std::int64_t{1}}, {"reverse", false}}) == 15);
}

TEST_CASE("arithmetic operations of products") {
  const Attrs batched = {{"contract", std::vector<Dims>{{2}, {1}}}, {"batch", std::vector<Dims>{{0}, {0}}}};
  CHECK(flops("dot_general", {f32({2, 3, 4}), f32({2, 4, 5})}, batched) == 2. * 2 * 3 * 4 * 5);
  const Attrs conv = {{"strides", Dims{1, 1}},
                      {"padding", std::vector<Dims>{{1, 1}, {1, 1}}},
                      {"dilation", Dims{1, 1}},
                      {"groups", std::int64_t{1}}};
  const ArrayType x = f32({2, 8, 8, 3}), kernel = f32({3, 3, 3, 4}), y = f32({2, 8, 8, 4});
  const double expected = 2. * (2 * 8 * 8 * 4) * (3 * 3 * 3);
  CHECK(flops("conv", {x, kernel}, conv) == expected);
  CHECK(flops("conv_input_grad", {y, kernel}, conv.with("spatial", Dims{8, 8})) == expected);
  CHECK(flops("conv_kernel_grad", {x, y}, conv.with("window", Dims{3, 3})) == expected);
  const Attrs grouped = conv.with("groups", std::int64_t{3});
  CHECK(flops("conv", {x, f32({3, 3, 1, 6})}, grouped) == 2. * (2 * 8 * 8 * 6) * (3 * 3));
}

TEST_CASE("arithmetic operations of attention: two products of queries with keys") {
  const ArrayType q = f32({2, 6, 4, 8}), k = f32({2, 5, 2, 8}), bias = f32({1, 1, 1, 1});
  const ArrayType mask{DType::bool_, {1, 1, 1, 1}, {}};
  const Attrs attrs = {{"scale", 1.0}, {"window", Dims{-1, -1}}};
  CHECK(flops("attention", {q, k, k, bias, mask}, attrs) == 2 * 2. * (2 * 4 * 6 * 5 * 8));
}

TEST_CASE("arithmetic operations of decompositions, transforms and sorts") {
  CHECK(flops("cholesky", {f32({2, 6, 6})}) == 2 * 6. * 6 * 6 / 3);
  CHECK(flops("lu", {f32({6, 6})}) == doctest::Approx(2. / 3 * 6 * 6 * 6));
  CHECK(flops("qr", {f32({6, 4})}, {{"full_matrices", false}}) == doctest::Approx(2 * (2. * 6 * 16 - 2. / 3 * 64)));
  const ArrayType a = f32({2, 4, 4}), b = f32({2, 4, 3});
  const Attrs solve = {
      {"left_side", true}, {"lower", true}, {"transpose_a", false}, {"conjugate_a", false}, {"unit_diagonal", false}};
  CHECK(flops("triangular_solve", {a, b}, solve) == 2 * 4. * 4 * 3);
  const ArrayType z{DType::complex64, {3, 8}, {}};
  CHECK(flops("fft", {z}, {{"kind", std::string("fft")}, {"lengths", Dims{8}}}) == 5. * 3 * 8 * 3);
  CHECK(flops("sort", {f32({3, 8})}, {{"axis", std::int64_t{1}}, {"num_keys", std::int64_t{1}}}) == 3. * 8 * 3);
}

TEST_CASE("every sample of every op has a finite number of arithmetic operations") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& primitive = getter();
    CAPTURE(primitive.name);
    for (const ir::Sample& sample : primitive.samples()) {
      std::vector<ArrayType> inputs;
      for (const ir::SampleInput& input : sample.inputs) inputs.push_back(input.type);
      const std::vector<ArrayType> outputs = ir::infer_types(primitive, inputs, sample.attrs, sample.axes);
      const double count = ir::flops_of(primitive, {inputs, outputs, sample.attrs});
      CHECK(std::isfinite(count));
      CHECK(count >= 0);
    }
  }
}

}  // namespace lockstep::tests
