#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include <lockstep/backend/backend.h>
#include <lockstep/export.h>
#include <lockstep/types.h>

// Requests for several kernels of one op at once, one a shard: what each gives, or the sum of it.
namespace lockstep::backend {

/// The kernels that a request stands for.
struct LOCKSTEP_API GroupedKernels {
  std::string_view op;
  std::size_t count = 0;
  std::array<ArrayType, 2> inputs;  ///< Of the first one.

  /// The request for the first one, of which the others differ in their operands alone.
  KernelRequest first(const KernelRequest& grouped) const {
    return {op, grouped.attrs, inputs, grouped.outputs.first(1), grouped.device};
  }
};

/// Of a request for the sum of what `op` gives: operands a0 b0 a1 b1 ..., one result.
LOCKSTEP_API GroupedKernels grouped_sum(const KernelRequest& request, std::string_view op);
/// Of a request for what `op` gives for several operands and one window: operands a0 a1 ... b, as many results.
LOCKSTEP_API GroupedKernels grouped_shards(const KernelRequest& request, std::string_view op);

}  // namespace lockstep::backend
