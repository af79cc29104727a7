// Sums, differences and negatives of complex numbers by ATen, which has a NaN where an operand is infinite.

#include <ATen/ops/add.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sub.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"

namespace lockstep::backend::aten::kernels {

namespace {

template <class F>
std::unique_ptr<Kernel> make_operator(const KernelRequest& request, F apply) {
  return make_tensor_kernel(request,
                            [apply](const KernelArguments& arguments) {
                              at::Tensor out = tensor_of(arguments.outputs[0]);
                              apply(out, arguments.inputs);
                            },
                            {.strided = true, .in_place = in_place_inputs(request)});
}

}  // namespace

std::unique_ptr<Kernel> add(const KernelRequest& request) {
  return make_operator(request, [](at::Tensor& out, std::span<const ArrayView> inputs) {
    at::add_out(out, tensor_of(inputs[0]), tensor_of(inputs[1]));
  });
}

std::unique_ptr<Kernel> sub(const KernelRequest& request) {
  return make_operator(request, [](at::Tensor& out, std::span<const ArrayView> inputs) {
    at::sub_out(out, tensor_of(inputs[0]), tensor_of(inputs[1]));
  });
}

std::unique_ptr<Kernel> neg(const KernelRequest& request) {
  return make_operator(
      request, [](at::Tensor& out, std::span<const ArrayView> inputs) { at::neg_out(out, tensor_of(inputs[0])); });
}

}  // namespace lockstep::backend::aten::kernels
