// Convolutions in plain loops: of integers, of no elements, over none or many dimensions, and with the attribute
// `sum_blocks`.

#include <cstddef>
#include <cstring>
#include <memory>

#include "backends/cpu/convolutions/ordered_conv.h"
#include "backends/cpu/convolutions/plain_conv.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

std::unique_ptr<Kernel> conv(const KernelRequest& request) {
  const int spatial = request.inputs[0].shape.rank() - 2;
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype) && !is_integer(dtype)) return nullptr;
  const bool empty = request.inputs[0].size() == 0 || request.inputs[1].size() == 0 || request.outputs[0].size() == 0;
  if (empty) {
    return make_function_kernel([nbytes = request.outputs[0].nbytes()](const KernelArguments& arguments) {
      if (nbytes > 0) std::memset(arguments.outputs[0].data, 0, static_cast<std::size_t>(nbytes));
    });
  }
  if (request.attrs.has("sum_blocks")) return make_ordered_conv(request);
  return is_integer(dtype) || spatial < 1 || spatial > 3 ? make_plain_conv(request) : nullptr;
}

std::unique_ptr<Kernel> conv_input_grad(const KernelRequest& request) { return conv(request); }
std::unique_ptr<Kernel> conv_kernel_grad(const KernelRequest& request) { return conv(request); }

}  // namespace lockstep::backend::cpu::kernels
