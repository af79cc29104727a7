#include "backends/aten/kernel_table.h"

#include <unordered_map>

#include "backends/aten/function_kernel.h"

namespace lockstep::backends::aten {

KernelMaker find_maker(std::string_view op) {
  static const std::unordered_map<std::string_view, KernelMaker> table = {
#define LOCKSTEP_KERNEL(op) {#op, kernels::op},
#include "backends/aten/kernels.def"
#undef LOCKSTEP_KERNEL
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

unsigned in_place_inputs(const KernelRequest& request) {
  unsigned bits = 0;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const bool same =
        request.inputs[i].dtype == request.outputs[0].dtype && request.inputs[i].shape == request.outputs[0].shape;
    if (same) bits |= 1U << i;
  }
  return bits;
}

}  // namespace lockstep::backends::aten
