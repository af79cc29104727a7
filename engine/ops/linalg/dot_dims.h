#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

namespace lockstep::ops {

/// The roles of a dot_general's dimensions, each entry for operand 0 and 1. Result: batch, free of 0, free of 1.
struct DotDims {
  std::array<Dims, 2> contract;
  std::array<Dims, 2> batch;
  std::array<Dims, 2> free;  ///< What neither is contracted nor batch, ascending.
};

DotDims dot_dims(const Attrs& attrs, const std::array<int, 2>& ranks);
Attrs dot_attrs(const std::array<Dims, 2>& contract, const std::array<Dims, 2>& batch);

}  // namespace lockstep::ops
