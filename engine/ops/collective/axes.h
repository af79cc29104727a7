#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/values.h"

// What the collectives share: axis checks, the order of sums over replicas, samples.
namespace lockstep::ops::collective {

[[noreturn]] void mesh_error(const ir::InferContext& context, std::string_view expected, std::string_view instead);

/// Attribute `axes`: at least one, each bound, none twice. Throws MeshError.
AxisSet bound_axes(const ir::InferContext& context);
/// Attribute `axis`, bound, as a set of one.
AxisSet bound_axis(const ir::InferContext& context);
/// Throws MeshError where operand 0 is invariant along one of the axes. `purpose` says what that would do.
void expect_varying(const ir::InferContext& context, const AxisSet& axes, std::string_view purpose,
                    std::string_view instead);

/// Attribute `axes` as a set.
AxisSet axes_attr(const Attrs& attrs);
AxisSet axis_attr(const Attrs& attrs);
/// The value made varying along the axes, if it is not yet.
Value varying_along(const Value& x, const AxisSet& axes);

/// Elements of operand 0 summed over the leading group dimension in the order of `fold_tree`: partial sums of float16, bfloat16 and
/// float32 are rounded to float32, integers wrap. The result has no group dimension.
ir::ReferenceArray group_sum(const ir::ReferenceArray& x);

/// Whether the batch is the axis of attribute `axis`, or one of the attribute `axes`.
bool over_batch(const ir::BatchContext& context);
/// The attribute `axes` without the batch's.
AxisSet other_axes(const ir::BatchContext& context);
/// Dimension 0 of `x` moved to stand before what is then dimension `dim`.
Value leading_to(const Value& x, std::int64_t dim);
/// Dimension `dim` of `x` moved to the front.
Value to_leading(const Value& x, std::int64_t dim);

/// The attribute `axes` with these names.
inline Attrs along_axes(std::vector<std::string> names) { return {{"axes", std::move(names)}}; }
/// A sample's operand that varies along the axes.
ir::SampleInput varying_input(DType dtype, const Shape& shape, const AxisSet& axes);
/// Meshes of samples.
ir::AxisSizes mesh(std::int64_t batch);
ir::AxisSizes mesh(std::int64_t batch, std::int64_t model);

}  // namespace lockstep::ops::collective
