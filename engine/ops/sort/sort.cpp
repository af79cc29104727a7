#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <type_traits>

#include "engine/core/lists.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> sort_infer(const ir::InferContext& context) {
  infer::expect_at_least(context, 1);
  infer::expect_same_shape(context);
  infer::index_attr(context, "axis", context.inputs[0].shape.rank());
  const auto keys = context.attrs.get<std::int64_t>("num_keys");
  const auto count = static_cast<std::int64_t>(context.inputs.size());
  if (keys < 1 || keys > count) {
    infer::shape_error(context, "num_keys in [1, " + std::to_string(count) + "], the operands", "sort by fewer keys");
  }
  for (std::int64_t i = 0; i < keys; ++i) infer::expect_dtype(context, static_cast<std::size_t>(i), infer::value);
  std::vector<ArrayType> results;
  for (const ArrayType& operand : context.inputs) results.push_back({operand.dtype, operand.shape, {}});
  return results;
}

/// Tangents are permuted as their operands are: positions are sorted along with them.
std::vector<Tangent> sort_jvp(const JvpContext& context) {
  std::vector<Tangent> results(context.inputs.size());
  if (context.inputs[0].type().size() == 0) return results;
  const auto axis = context.attrs.get<std::int64_t>("axis");
  std::vector<Value> operands(context.inputs.begin(), context.inputs.end());
  operands.push_back(iota(context.builder, DType::int32, context.inputs[0].shape(), static_cast<int>(axis)));
  const Value order = apply(primitives::sort(), operands, context.attrs).back();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!context.tangents[i]) continue;
    results[i] = apply_one(primitives::take_along_axis(), {*context.tangents[i], order}, {{"axis", axis}});
  }
  return results;
}

template <class T>
int compare(T a, T b) {
  if constexpr (std::is_same_v<T, Complex>) {
    const int by_real = compare(a.real(), b.real());
    return by_real != 0 ? by_real : compare(a.imag(), b.imag());
  } else {
    if (a != a || b != b) return (a != a ? 1 : 0) - (b != b ? 1 : 0);
    return (a > b ? 1 : 0) - (a < b ? 1 : 0);
  }
}

int compare_elements(const ir::ReferenceArray& keys, std::int64_t a, std::int64_t b) {
  int result = 0;
  reference::dispatch<double, std::int64_t, std::uint64_t, bool, Complex>(
      keys.type.dtype, [&]<class T>() { result = compare(reference::load<T>(keys, a), reference::load<T>(keys, b)); });
  return result;
}

void sort_reference(const ir::ReferenceContext& context) {
  const Shape& shape = context.inputs[0].type.shape;
  const int axis = static_cast<int>(context.attrs.get<std::int64_t>("axis"));
  const auto keys = static_cast<std::size_t>(context.attrs.get<std::int64_t>("num_keys"));
  const std::int64_t stride = nth(row_major_strides(shape), axis);
  reference::for_each_index(shape.with(axis, shape.size() == 0 ? 0 : 1), [&](const reference::Index& index) {
    const std::int64_t start = reference::offset(shape, index);
    std::vector<std::int64_t> order = repeated(shape[axis]);
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      int by_keys = 0;
      for (std::size_t k = 0; by_keys == 0 && k < keys; ++k) {
        by_keys = compare_elements(context.inputs[k], start + a * stride, start + b * stride);
      }
      return by_keys < 0;
    });
    for (std::size_t i = 0; i < context.inputs.size(); ++i) {
      for (std::size_t k = 0; k < order.size(); ++k) {
        reference::copy_element(context.inputs[i], start + order[k] * stride, context.outputs[i],
                                start + static_cast<std::int64_t>(k) * stride);
      }
    }
  });
}

Attrs sort_attrs(std::int64_t axis, std::int64_t num_keys) { return {{"axis", axis}, {"num_keys", num_keys}}; }

/// Integers make ties.
std::vector<ir::Sample> sort_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16, DType::int32, DType::int64,
                            DType::int8, DType::uint8, DType::bool_, DType::complex128, DType::complex64}) {
    const samples::Range range{is_unsigned_integer(dtype) || dtype == DType::bool_ ? 0.0 : -3.0,
                               dtype == DType::bool_ ? 2.0 : 3.0, is_float(dtype)};
    const auto add = [&](const Shape& shape, std::int64_t axis) {
      result.push_back({{samples::input(dtype, shape, range)}, sort_attrs(axis, 1), {}});
    };
    add(Shape{7}, 0);
    add(Shape{3, 4}, 0);
    add(Shape{2, 4, 3}, 1);
    add(Shape{1}, 0);
    add(Shape{0, 3}, 1);
    add(Shape{3, 0}, 1);
    const Shape shape{2, 6};
    result.push_back(
        {{samples::input(dtype, shape, range), samples::input(DType::float64, shape)}, sort_attrs(1, 1), {}});
    result.push_back({{samples::input(DType::int32, shape, {0, 3}), samples::input(dtype, shape, range),
                       samples::input(DType::float64, shape, {-2, 2, true})},
                      sort_attrs(1, 2),
                      {}});
  }
  return result;
}

/// Comparisons.
double sort_flops(const ir::CostContext& context) {
  const Shape& x = context.inputs[0].shape;
  if (x.size() == 0) return 0;
  const auto extent = static_cast<double>(x[static_cast<int>(context.attrs.get<std::int64_t>("axis"))]);
  return static_cast<double>(x.size()) * std::log2(extent);
}

}  // namespace

const Primitive& primitives::sort() {
  const ArrayType x{DType::float32, Shape{2, 3}, {}};
  static const Primitive op{.name = "sort",
                            .infer = sort_infer,
                            .derivative = derivative::jvp(sort_jvp),
                            .batch = batch::along(sort, "axis"),
                            .reference = sort_reference,
                            .flops = sort_flops,
                            .samples = sort_samples,
                            .error_samples = samples::errors(
                                {{{x}, sort_attrs(2, 1), "expected axis in [0, 2)", {}},
                                 {{x}, sort_attrs(1, 2), "expected num_keys in [1, 1]", {}},
                                 {{x, x}, sort_attrs(1, 0), "expected num_keys in [1, 2]", {}},
                                 {{x, {DType::int32, Shape{3}, {}}}, sort_attrs(0, 1), "operands of one shape", {}},
                                 {{{DType::key, Shape{3}, {}}}, sort_attrs(0, 1), "expected any dtype but key", {}},
                                 {{}, sort_attrs(0, 1), "at least 1 operand", {}}}),
                            .traits = {},
                            .layout = layout::along("axis")};
  return op;
}

}  // namespace lockstep::ops
