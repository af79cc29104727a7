#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include <lockstep/backend.h>
#include <lockstep/export.h>
#include <lockstep/types.h>

// Requests for several kernels of one op at once, one a shard: what each gives, or the sum of it.
namespace lockstep {

/// The op of a request for the sum of what `op` gives: "sum_of_products" for "dot_general". Empty where there is none.
LOCKSTEP_API std::string_view op_of_sum(std::string_view op);
/// The op of a request for what `op` gives for several operands and one window: "conv_of_shards" for "conv". Empty where
/// there is none.
LOCKSTEP_API std::string_view op_of_shards(std::string_view op);

/// The kernels that a request stands for.
struct LOCKSTEP_API JoinedOps {
  std::string_view op;
  std::size_t count = 0;
  std::array<ArrayType, 2> inputs;  ///< Of the first one.

  /// The request for the first one, of which the others differ in their operands alone.
  KernelRequest first(const KernelRequest& joined) const {
    return {op, joined.attrs, inputs, joined.outputs.first(1), joined.device};
  }
};
/// Nothing for a request of one op.
LOCKSTEP_API std::optional<JoinedOps> joined_ops(const KernelRequest& request);

}  // namespace lockstep
