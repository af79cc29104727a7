#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/ops/collective/axes.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

using collective::along_axes;
using collective::mesh;

std::vector<ArrayType> infer_extreme(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::ordered);
  const AxisSet axes = collective::bound_axes(context);
  collective::expect_varying(context, axes, "", "use x as it is");
  const ArrayType& x = context.inputs[0];
  return {{x.dtype, x.shape, x.varying.without(axes)}};
}

/// The replicas that hold the extreme value share its tangent equally.
Value extreme_tangent(const ir::JvpContext& context) {
  const AxisSet axes = collective::axes_attr(context.attrs);
  const Value& x = context.inputs[0];
  const Value holds = equal(x, context.outputs[0]);
  const Value count = psum(convert(holds, x.dtype()), axes);
  const Value dx = collective::varying_along(*context.tangents[0], axes);
  return psum(select(holds, dx, full_like(dx, 0)), axes) / count;
}

template <bool largest>
std::vector<Value> batch_extreme(const ir::BatchContext& context) {
  const ir::Primitive& self = largest ? primitives::pmax() : primitives::pmin();
  if (!collective::over_batch(context)) return {apply_one(self, {context.inputs[0]}, context.attrs)};
  const ir::Primitive& reduce = largest ? primitives::reduce_max() : primitives::reduce_min();
  const Value& x = context.inputs[0];
  const Value extreme = context.batched[0] ? apply_one(reduce, {x}, {{"axes", Dims{0}}}) : x;
  const AxisSet rest = collective::other_axes(context);
  return {rest.empty() ? extreme : apply_one(self, {extreme}, {{"axes", rest.names()}})};
}

template <bool largest, class T>
T more_extreme(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  if constexpr (largest) return b > a ? b : a;
  return b < a ? b : a;
}

template <bool largest>
void extreme_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray& x = context.inputs[0];
  ir::ReferenceArray& y = context.outputs[0];
  const std::int64_t group = x.type.shape[0];
  const std::int64_t size = x.type.size() / group;
  reference::dispatch<double, std::int64_t, std::uint64_t, bool>(x.type.dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < size; ++i) {
      T best = reference::load<T>(x, i);
      for (std::int64_t r = 1; r < group; ++r)
        best = more_extreme<largest, T>(best, reference::load<T>(x, r * size + i));
      for (std::int64_t r = 0; r < group; ++r) reference::store(y, r * size + i, best);
    }
  });
}

std::vector<ir::Sample> extreme_samples() {
  std::vector<ir::Sample> list;
  const auto add = [&](DType dtype, const Shape& shape, const ir::AxisSizes& sizes, std::vector<std::string> names,
                       const AxisSet& varying) {
    ir::SampleInput input = samples::distinct(dtype, shape);
    input.type.varying = varying;
    list.push_back({{input}, along_axes(std::move(names)), sizes});
  };
  for (const Shape& shape : samples::small_shapes()) add(float64, shape, mesh(4), {"batch"}, {"batch"});
  add(float32, {2, 3}, mesh(8), {"batch"}, {"batch"});
  add(float64, {3}, mesh(1), {"batch"}, {"batch"});
  add(float64, {3}, mesh(2, 4), {"batch", "model"}, {"batch", "model"});
  add(float64, {3}, mesh(2, 2), {"model"}, {"batch", "model"});
  for (const DType dtype : {float16, bfloat16, int32, uint8, DType::bool_}) {
    list.push_back({{collective::varying_input(dtype, {4}, {"batch"})}, along_axes({"batch"}), mesh(4)});
  }
  return list;
}

std::vector<ir::ErrorSample> extreme_errors() {
  const ArrayType x{float32, {2}, {"batch"}};
  return {
      {{}, along_axes({"batch"}), "expected 1 operand", mesh(2)},
      {{{complex64, {2}, {"batch"}}}, along_axes({"batch"}), "a float, integer or bool dtype", mesh(2)},
      {{x}, along_axes({}), "at least one axis", mesh(2)},
      {{x}, along_axes({"rows"}), "unbound axis", mesh(2)},
      {{{float32, {2}, {}}}, along_axes({"batch"}), "invariant along batch", mesh(2)},
  };
}

template <bool largest>
ir::Primitive extreme(const char* name) {
  return {
      .name = name,
      .infer = infer_extreme,
      .derivative = derivative::jvp(
          [](const ir::JvpContext& context) -> std::vector<ir::Tangent> { return {extreme_tangent(context)}; }),
      .batch = batch_extreme<largest>,
      .reference = extreme_reference<largest>,
      .samples = extreme_samples,
      .error_samples = extreme_errors,
      .traits = {.collective = true, .typed_axes = true},
      .collective = {.exchange = ir::Exchange::reduce, .combine = largest ? primitives::maximum : primitives::minimum},
  };
}

}  // namespace

const ir::Primitive& primitives::pmax() {
  static const ir::Primitive primitive = extreme<true>("pmax");
  return primitive;
}

const ir::Primitive& primitives::pmin() {
  static const ir::Primitive primitive = extreme<false>("pmin");
  return primitive;
}

}  // namespace lockstep::ops
