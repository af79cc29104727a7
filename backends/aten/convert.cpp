// Conversions that ATen makes: copies, and those between floats that backends/cpu has not.

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"

namespace lockstep::backend::aten::kernels {

std::unique_ptr<Kernel> convert(const KernelRequest& request) {
  return make_tensor_kernel(
      request,
      [](const KernelArguments& arguments) { tensor_of(arguments.outputs[0]).copy_(tensor_of(arguments.inputs[0])); },
      {.strided = true});
}

}  // namespace lockstep::backend::aten::kernels
