#pragma once

#include <cstdint>
#include <vector>

#include "engine/ir/primitive.h"

// Lists that tables of ops are written with.
namespace lockstep::tests {

using Dims = std::vector<std::int64_t>;
using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;
using Kind = ir::Derivative::Kind;

}  // namespace lockstep::tests
