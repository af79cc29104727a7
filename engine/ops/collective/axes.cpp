#include "engine/ops/collective/axes.h"

#include <algorithm>
#include <complex>
#include <type_traits>

#include <lockstep/error.h>

#include "engine/core/fold_tree.h"
#include "engine/ops/rules/infer.h"

namespace lockstep::ops::collective {

namespace {

template <class T>
T rounded(T value, DType dtype) {
  if constexpr (std::is_same_v<T, double>) {
    return dtype == float64 ? value : static_cast<double>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, reference::Complex>) {
    return dtype == complex128 ? value : T(std::complex<float>(value));
  } else {
    return value;
  }
}

}  // namespace

void mesh_error(const ir::InferContext& context, std::string_view expected, std::string_view instead) {
  throw MeshError(infer::given(context) + "; expected " + std::string(expected) + "; instead " + std::string(instead));
}

AxisSet bound_axes(const ir::InferContext& context) {
  const auto& names = context.attrs.get<std::vector<std::string>>("axes");
  if (names.empty()) mesh_error(context, "at least one axis", "name the mesh axes, for example {\"batch\"}");
  AxisSet axes;
  for (const std::string& name : names) {
    context.axes.size(name, context.op);
    if (axes.contains(name)) mesh_error(context, "each axis once", "name " + name + " once");
    axes = axes.joined({name});
  }
  return axes;
}

AxisSet bound_axis(const ir::InferContext& context) {
  const auto& name = context.attrs.get<std::string>("axis");
  context.axes.size(name, context.op);
  return {name};
}

void expect_varying(const ir::InferContext& context, const AxisSet& axes, std::string_view purpose,
                    std::string_view instead) {
  const AxisSet missing = axes.without(context.inputs[0].varying);
  if (missing.empty()) return;
  mesh_error(context,
             "an operand that varies along " + to_string(axes) + ", but it is invariant along " + to_string(missing) +
                 " (every replica holds the same value" + std::string(purpose) + ")",
             instead);
}

AxisSet axes_attr(const Attrs& attrs) { return AxisSet(attrs.get<std::vector<std::string>>("axes")); }

AxisSet axis_attr(const Attrs& attrs) { return {attrs.get<std::string>("axis")}; }

Value varying_along(const Value& x, const AxisSet& axes) { return {x.builder(), x.builder().pvary(x.var(), axes)}; }

ir::ReferenceArray group_sum(const ir::ReferenceArray& x) {
  const std::int64_t group = x.type.shape[0];
  ir::ReferenceArray sum = ir::reference_zeros({x.type.dtype, x.type.shape.erase(0), {}});
  const std::int64_t size = sum.type.size();
  const auto add_up = [&]<class T>() {
    const auto add = [&](T a, T b, TreeNode) { return rounded<T>(a + b, x.type.dtype); };
    for (std::int64_t i = 0; i < size; ++i) {
      const auto element = [&](std::int64_t replica, TreeNode) { return reference::load<T>(x, replica * size + i); };
      reference::store(sum, i, fold_tree<T>(0, group, element, add));
    }
  };
  if (is_integer(x.type.dtype)) {
    add_up.template operator()<std::uint64_t>();
  } else {
    reference::dispatch<double, reference::Complex>(x.type.dtype, add_up);
  }
  return sum;
}

bool over_batch(const ir::BatchContext& context) {
  if (context.axis.empty()) return false;
  if (context.attrs.has("axes")) return axes_attr(context.attrs).contains(context.axis);
  return context.attrs.get<std::string>("axis") == context.axis;
}

AxisSet other_axes(const ir::BatchContext& context) { return axes_attr(context.attrs).without({context.axis}); }

Value leading_to(const Value& x, std::int64_t dim) {
  Dims permutation;
  for (std::int64_t d = 1; d < x.rank(); ++d) permutation.push_back(d);
  permutation.insert(permutation.begin() + dim, 0);
  return transpose(x, permutation);
}

Value to_leading(const Value& x, std::int64_t dim) {
  Dims permutation{dim};
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) permutation.push_back(d);
  }
  return transpose(x, permutation);
}

ir::SampleInput varying_input(DType dtype, const Shape& shape, const AxisSet& axes) {
  return {{dtype, shape, axes}, -2, 2, false};
}

ir::AxisSizes mesh(std::int64_t batch) { return ir::AxisSizes({{"batch", batch}}); }

ir::AxisSizes mesh(std::int64_t batch, std::int64_t model) {
  return ir::AxisSizes({{"batch", batch}, {"model", model}});
}

}  // namespace lockstep::ops::collective
