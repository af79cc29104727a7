#include <cmath>

#include <ATen/ops/add.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>

#include "backends/aten/element_types.h"
#include "backends/aten/kernel_table.h"
#include "backends/aten/plain_loops.h"
#include "backends/aten/tensors.h"

namespace lockstep::backends::aten::kernels {

namespace {

using Operator = at::Tensor& (*)(at::Tensor& out, const at::Tensor& x);

enum class Strides { any, contiguous };

/// A one-operand operator of ATen on float or complex elements. The test of positions shows for each one used here that an
/// element's bits do not depend on its neighbours, its position or the length.
std::unique_ptr<Kernel> make_unary(const KernelRequest& request, Operator apply, Strides strides) {
  if (!is_inexact(request.inputs[0].dtype)) return nullptr;
  return make_function_kernel(request,
                              [apply](const KernelArguments& arguments) {
                                at::Tensor out = tensor_of(arguments.outputs[0]);
                                apply(out, tensor_of(arguments.inputs[0]));
                              },
                              {.strided = strides == Strides::any, .in_place = in_place_inputs(request)});
}

/// By passes over the result: at::sigmoid computes the elements that fill no vector by another formula.
at::Tensor& logistic_out(at::Tensor& out, const at::Tensor& x) {
  at::neg_out(out, x);
  at::exp_out(out, out);
  at::add_out(out, out, at::Scalar(1));
  return at::reciprocal_out(out, out);
}

}  // namespace

std::unique_ptr<Kernel> ceil(const KernelRequest& request) { return make_unary(request, at::ceil_out, Strides::any); }
std::unique_ptr<Kernel> floor(const KernelRequest& request) { return make_unary(request, at::floor_out, Strides::any); }
std::unique_ptr<Kernel> round(const KernelRequest& request) { return make_unary(request, at::round_out, Strides::any); }

std::unique_ptr<Kernel> cos(const KernelRequest& request) {
  return make_unary(request, at::cos_out, Strides::contiguous);
}
std::unique_ptr<Kernel> erf(const KernelRequest& request) {
  return make_unary(request, at::erf_out, Strides::contiguous);
}
std::unique_ptr<Kernel> erf_inv(const KernelRequest& request) {
  return make_unary(request, at::erfinv_out, Strides::contiguous);
}
std::unique_ptr<Kernel> exp(const KernelRequest& request) {
  return make_unary(request, at::exp_out, Strides::contiguous);
}
std::unique_ptr<Kernel> expm1(const KernelRequest& request) {
  return make_unary(request, at::expm1_out, Strides::contiguous);
}
std::unique_ptr<Kernel> log(const KernelRequest& request) {
  return make_unary(request, at::log_out, Strides::contiguous);
}
std::unique_ptr<Kernel> log1p(const KernelRequest& request) {
  return make_unary(request, at::log1p_out, Strides::contiguous);
}
std::unique_ptr<Kernel> log2(const KernelRequest& request) {
  return make_unary(request, at::log2_out, Strides::contiguous);
}
std::unique_ptr<Kernel> sin(const KernelRequest& request) {
  return make_unary(request, at::sin_out, Strides::contiguous);
}
std::unique_ptr<Kernel> tanh(const KernelRequest& request) {
  return make_unary(request, at::tanh_out, Strides::contiguous);
}

std::unique_ptr<Kernel> logistic(const KernelRequest& request) {
  const bool wide = size_of(request.inputs[0].dtype) >= sizeof(float);
  return make_unary(request, wide ? logistic_out : at::sigmoid_out, Strides::contiguous);
}

// Own loops for floats: ATen's square roots are not all correctly rounded.
std::unique_ptr<Kernel> sqrt(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype)) return make_unary(request, at::sqrt_out, Strides::contiguous);
  return with_float(dtype, [&]<class T>() {
    return make_map<T, T>(request, [](T x) { return static_cast<T>(std::sqrt(static_cast<Wide<T>>(x))); });
  });
}

std::unique_ptr<Kernel> rsqrt(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype)) return nullptr;
  return with_float(dtype, [&]<class T>() {
    return make_map<T, T>(request, [](T x) { return static_cast<T>(1 / std::sqrt(static_cast<Wide<T>>(x))); });
  });
}

}  // namespace lockstep::backends::aten::kernels
