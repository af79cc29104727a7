#pragma once

#include <cstdint>
#include <vector>

#include "engine/ir/primitive.h"
#include "tests/support/dims.h"

// Lists that tables of ops are written with.
namespace lockstep::tests {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;
using Kind = ir::Derivative::Kind;

}  // namespace lockstep::tests
