#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <lockstep/backend/backend.h>

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "tests/support/backend_op.h"
#include "tests/support/cpu_and_aten.h"
#include "tests/support/samples.h"

// Kernels of plain loops and of ATen, made from requests and run on arrays of plain memory.
namespace lockstep::tests {

inline const backend::Backend& aten() {
  static const CpuAndAten backend;
  return backend;
}

/// An op bound to these backends' kernel of it.
struct BoundOp : BackendOp {
  BoundOp(const ir::Primitive& primitive, std::vector<ArrayType> input_types, Attrs attributes)
      : BackendOp(aten(), primitive, std::move(input_types), std::move(attributes)) {}
};

/// What the executor does without a kernel.
inline bool has_no_kernel(const ir::Primitive& primitive) {
  return primitive.traits.collective || primitive.traits.loop || primitive.traits.call ||
         primitive.name == "custom_vjp_tangents" || primitive.name == "pmap" || primitive.name == "pvary" ||
         primitive.name == "axis_index" || primitive.name == "collective_start" || primitive.name == "collective_wait";
}

/// Calls check(primitive, sample) for every sample of every op that has kernels.
template <class Check>
void for_each_sample(Check check) {
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    const ir::Primitive& primitive = get();
    if (has_no_kernel(primitive)) continue;
    for (const ir::Sample& sample : primitive.samples()) check(primitive, sample);
  }
}

}  // namespace lockstep::tests
