#include "backends/cpu/function_kernel.h"

namespace lockstep::backend::cpu {

unsigned in_place_inputs(const KernelRequest& request) {
  unsigned bits = 0;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const bool same =
        request.inputs[i].dtype == request.outputs[0].dtype && request.inputs[i].shape == request.outputs[0].shape;
    if (same) bits |= 1U << i;
  }
  return bits;
}

}  // namespace lockstep::backend::cpu
