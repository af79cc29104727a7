#include <algorithm>
#include <cstdint>
#include <numeric>

#include "engine/core/lists.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> arg_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::ordered);
  const DType dtype = context.attrs.get<DType>("dtype");
  if (dtype != DType::int32 && dtype != DType::int64) {
    infer::dtype_error(context, "dtype int32 or int64 for the positions", "convert the result");
  }
  const Shape& x = context.inputs[0].shape;
  const int axis = static_cast<int>(infer::index_attr(context, "axis", x.rank()));
  if (x[axis] == 0) {
    infer::shape_error(context, "at least one element along axis " + std::to_string(axis), "leave empty arrays out");
  }
  return {{dtype, x.erase(axis), {}}};
}

/// Whether `a` stands before `b` in descending (or ascending) order; NaN is beyond every number.
template <class T>
bool before(T a, T b, bool descending) {
  if (a != a || b != b) return a != a && b == b;
  return descending ? a > b : a < b;
}

ir::Reference arg_reference(bool largest) {
  return [largest](const ir::ReferenceContext& context) {
    const ir::ReferenceArray& x = context.inputs[0];
    const int axis = static_cast<int>(context.attrs.get<std::int64_t>("axis"));
    std::int64_t i = 0;
    reference::for_each_index(context.outputs[0].type.shape, [&](const reference::Index& index) {
      reference::Index at = index;
      at.insert(at.begin() + axis, 0);
      const std::int64_t stride = nth(row_major_strides(x.type.shape), axis);
      const std::int64_t start = reference::offset(x.type.shape, at);
      std::int64_t best = 0;
      reference::dispatch<double, std::int64_t, std::uint64_t, bool>(x.type.dtype, [&]<class T>() {
        for (std::int64_t k = 1; k < x.type.shape[axis]; ++k) {
          const T candidate = reference::load<T>(x, start + k * stride);
          if (before(candidate, reference::load<T>(x, start + best * stride), largest)) best = k;
        }
      });
      reference::store(context.outputs[0], i++, best);
    });
  };
}

Attrs arg_attrs(std::int64_t axis, DType dtype) { return {{"axis", axis}, {"dtype", dtype}}; }

std::vector<ir::Sample> arg_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::int8, DType::uint8}) {
    const auto add = [&](const Shape& shape, std::int64_t axis, DType positions) {
      result.push_back({{samples::input(dtype, shape, {0, 4, is_float(dtype)})}, arg_attrs(axis, positions), {}});
    };
    add(Shape{5}, 0, DType::int32);
    add(Shape{3, 4}, 0, DType::int64);
    add(Shape{3, 4}, 1, DType::int32);
    add(Shape{2, 3, 4}, 1, DType::int32);
    add(Shape{1}, 0, DType::int32);
    add(Shape{0, 3}, 1, DType::int32);
  }
  return result;
}

Primitive arg_primitive(std::string name, PrimitiveGetter self, bool largest) {
  const ArrayType x{DType::float32, Shape{2, 3}, {}};
  return {
      .name = std::move(name),
      .infer = arg_infer,
      .derivative = derivative::zero(),
      .batch = batch::along(self, "axis"),
      .reference = arg_reference(largest),
      .flops = flops::per_element(0),
      .samples = arg_samples,
      .error_samples = samples::errors(
          {{{x}, arg_attrs(2, DType::int32), "expected axis in [0, 2)", {}},
           {{x}, arg_attrs(0, DType::float32), "dtype int32 or int64", {}},
           {{{DType::float32, Shape{0, 3}, {}}}, arg_attrs(0, DType::int32), "at least one element along axis 0", {}},
           {{{DType::complex64, Shape{2}, {}}}, arg_attrs(0, DType::int32), "for operand 0", {}}}),
      .traits = {},
      .layout = layout::along("axis")};
}

std::vector<ArrayType> top_k_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::real);
  const Shape& x = context.inputs[0].shape;
  if (x.rank() == 0) infer::shape_error(context, "rank 1 or more", "reshape it to [1]");
  const int last = x.rank() - 1;
  const std::int64_t k = context.attrs.get<std::int64_t>("k");
  if (k < 0 || k > x[last]) {
    infer::shape_error(context, "k in [0, " + std::to_string(x[last]) + "], the last extent", "take a smaller k");
  }
  return {{context.inputs[0].dtype, x.with(last, k), {}}, {DType::int32, x.with(last, k), {}}};
}

std::vector<Tangent> top_k_jvp(const JvpContext& context) {
  const auto last = static_cast<std::int64_t>(context.inputs[0].rank() - 1);
  if (context.inputs[0].type().size() == 0) return {std::nullopt, std::nullopt};
  return {apply_one(primitives::take_along_axis(), {*context.tangents[0], context.outputs[1]}, {{"axis", last}}),
          std::nullopt};
}

void top_k_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray& x = context.inputs[0];
  const std::int64_t extent = x.type.shape.dim(-1);
  const std::int64_t k = context.attrs.get<std::int64_t>("k");
  const std::int64_t rows = extent == 0 ? 0 : x.type.size() / extent;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<std::int64_t> order = repeated(extent);
    std::iota(order.begin(), order.end(), std::int64_t{0});
    reference::dispatch<double, std::int64_t, std::uint64_t>(x.type.dtype, [&]<class T>() {
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return before(reference::load<T>(x, row * extent + a), reference::load<T>(x, row * extent + b), true);
      });
    });
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t from = nth(order, i);
      reference::copy_element(x, row * extent + from, context.outputs[0], row * k + i);
      reference::store(context.outputs[1], row * k + i, from);
    }
  }
}

std::vector<ir::Sample> top_k_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::uint8}) {
    const auto add = [&](const Shape& shape, std::int64_t k) {
      result.push_back({{samples::input(dtype, shape, {0, 4, is_float(dtype)})}, {{"k", k}}, {}});
    };
    add(Shape{5}, 3);
    add(Shape{3, 4}, 1);
    add(Shape{2, 3, 4}, 4);
    add(Shape{3}, 0);
    add(Shape{1}, 1);
    add(Shape{0, 3}, 2);
  }
  return result;
}

}  // namespace

const Primitive& primitives::argmax() {
  static const Primitive op = arg_primitive("argmax", argmax, true);
  return op;
}

const Primitive& primitives::argmin() {
  static const Primitive op = arg_primitive("argmin", argmin, false);
  return op;
}

const Primitive& primitives::top_k() {
  static const Primitive op{
      .name = "top_k",
      .infer = top_k_infer,
      .derivative = derivative::jvp(top_k_jvp),
      .batch = batch::pointwise(top_k),
      .reference = top_k_reference,
      .flops = flops::per_element(0),
      .samples = top_k_samples,
      .error_samples = samples::errors(
          {{{{DType::float32, Shape{3}, {}}}, {{"k", std::int64_t{4}}}, "expected k in [0, 3]", {}},
           {{{DType::float32, Shape{}, {}}}, {{"k", std::int64_t{0}}}, "expected rank 1 or more", {}},
           {{{DType::bool_, Shape{3}, {}}}, {{"k", std::int64_t{1}}}, "expected a float or integer dtype", {}}}),
      .traits = {},
      .layout = layout::leading(1)};
  return op;
}

}  // namespace lockstep::ops
