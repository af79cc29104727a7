#include "engine/ops/grouped.h"

#include "engine/ops/primitives.h"

namespace lockstep::ops {

std::optional<backend::GroupedKernels> grouped_kernels(const backend::KernelRequest& request) {
  for (const PrimitiveGetter getter : all_primitives()) {
    const ir::Primitive& op = getter();
    if (!op.grouped.sum.empty() && op.grouped.sum == request.op) return backend::grouped_sum(request, op.name);
    if (!op.grouped.of_shards.empty() && op.grouped.of_shards == request.op)
      return backend::grouped_shards(request, op.name);
  }
  return std::nullopt;
}

}  // namespace lockstep::ops
