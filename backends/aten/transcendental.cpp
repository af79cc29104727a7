// Functions of floats that ATen has; backends/cpu has the others.

#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"

namespace lockstep::backend::aten::kernels {

namespace {

using UnaryOperator = at::Tensor& (*)(at::Tensor& out, const at::Tensor& x);

/// A one-operand operator of ATen on floats. The test of positions shows for each one used here that an element's bits do
/// not depend on its neighbours, its position or the length.
std::unique_ptr<Kernel> make_unary(const KernelRequest& request, UnaryOperator apply) {
  return make_tensor_kernel(request,
                            [apply](const KernelArguments& arguments) {
                              at::Tensor out = tensor_of(arguments.outputs[0]);
                              apply(out, tensor_of(arguments.inputs[0]));
                            },
                            {.in_place = in_place_inputs(request)});
}

}  // namespace

std::unique_ptr<Kernel> erf(const KernelRequest& request) { return make_unary(request, at::erf_out); }
std::unique_ptr<Kernel> erfc(const KernelRequest& request) { return make_unary(request, at::erfc_out); }
std::unique_ptr<Kernel> log2(const KernelRequest& request) { return make_unary(request, at::log2_out); }
std::unique_ptr<Kernel> erf_inv(const KernelRequest& request) { return make_unary(request, at::erfinv_out); }

std::unique_ptr<Kernel> acos(const KernelRequest& request) { return make_unary(request, at::acos_out); }
std::unique_ptr<Kernel> acosh(const KernelRequest& request) { return make_unary(request, at::acosh_out); }
std::unique_ptr<Kernel> asin(const KernelRequest& request) { return make_unary(request, at::asin_out); }
std::unique_ptr<Kernel> asinh(const KernelRequest& request) { return make_unary(request, at::asinh_out); }
std::unique_ptr<Kernel> atan(const KernelRequest& request) { return make_unary(request, at::atan_out); }
std::unique_ptr<Kernel> cos(const KernelRequest& request) { return make_unary(request, at::cos_out); }
std::unique_ptr<Kernel> exp(const KernelRequest& request) { return make_unary(request, at::exp_out); }
std::unique_ptr<Kernel> log(const KernelRequest& request) { return make_unary(request, at::log_out); }
std::unique_ptr<Kernel> sin(const KernelRequest& request) { return make_unary(request, at::sin_out); }
std::unique_ptr<Kernel> tan(const KernelRequest& request) { return make_unary(request, at::tan_out); }
std::unique_ptr<Kernel> tanh(const KernelRequest& request) { return make_unary(request, at::tanh_out); }
std::unique_ptr<Kernel> expm1(const KernelRequest& request) { return make_unary(request, at::expm1_out); }
std::unique_ptr<Kernel> log1p(const KernelRequest& request) { return make_unary(request, at::log1p_out); }

}  // namespace lockstep::backend::aten::kernels
