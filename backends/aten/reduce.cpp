// Reductions by ATen, where backends/cpu has no loop.

#include <cstdint>
#include <vector>

#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/sum.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"

namespace lockstep::backend::aten::kernels {

namespace {

using ReduceOperator = at::Tensor& (*)(at::Tensor& out, const at::Tensor& x, at::IntArrayRef axes, bool keep);

at::Tensor& sum_out(at::Tensor& out, const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return at::sum_out(out, x, axes, keep);
}

/// By ATen, whose order of additions is a function of shape and axes for row-major operands and one thread.
std::unique_ptr<Kernel> make_reduction(const KernelRequest& request, ReduceOperator reduce) {
  return make_tensor_kernel(request,
                            [reduce, axes = request.attrs.get<Dims>("axes")](const KernelArguments& arguments) {
                              at::Tensor out = tensor_of(arguments.outputs[0]);
                              const at::Tensor x = tensor_of(arguments.inputs[0]);
                              if (axes.empty()) {
                                out.copy_(x);  // ATen would reduce over every dimension.
                              } else {
                                reduce(out, x, axes, false);
                              }
                            });
}

}  // namespace

std::unique_ptr<Kernel> reduce_sum(const KernelRequest& request) {
  return request.attrs.has("sum_blocks") ? nullptr : make_reduction(request, sum_out);
}
std::unique_ptr<Kernel> reduce_max(const KernelRequest& request) { return make_reduction(request, at::amax_out); }
std::unique_ptr<Kernel> reduce_min(const KernelRequest& request) { return make_reduction(request, at::amin_out); }

}  // namespace lockstep::backend::aten::kernels
