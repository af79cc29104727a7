#pragma once

#include <span>
#include <utility>
#include <vector>

#include "engine/ir/value.h"

// What bodies of programs take and return, and the types and meshes of their operands.
namespace lockstep::tests {

using Values = std::vector<ir::Value>;
using Bodies = std::span<const ir::Value>;

inline ArrayType f32(const Shape& shape) { return {DType::float32, shape, {}}; }
inline ir::AxisSizes mesh(std::vector<ir::AxisSizes::Axis> axes) { return ir::AxisSizes(std::move(axes)); }

}  // namespace lockstep::tests
