#pragma once

#include <span>
#include <vector>

#include "engine/ir/value.h"

// What bodies of programs take and return, and the types of their operands.
namespace lockstep::tests {

using Inputs = std::span<const ir::Value>;
using Results = std::vector<ir::Value>;

inline const ArrayType scalar{DType::float64, Shape{}, {}};
inline const ArrayType vector2{DType::float64, Shape{2}, {}};

}  // namespace lockstep::tests
