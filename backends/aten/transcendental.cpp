#include <cmath>
#include <complex>
#include <type_traits>

#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"

namespace lockstep::backend::aten::kernels {

namespace {

using UnaryOperator = at::Tensor& (*)(at::Tensor& out, const at::Tensor& x);

enum class Strides { any, contiguous };

/// A one-operand operator of ATen on floats. The test of positions shows for each one used here that an element's bits do
/// not depend on its neighbours, its position or the length.
std::unique_ptr<Kernel> make_unary(const KernelRequest& request, UnaryOperator apply,
                                   Strides strides = Strides::contiguous) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return make_tensor_kernel(request,
                            [apply](const KernelArguments& arguments) {
                              at::Tensor out = tensor_of(arguments.outputs[0]);
                              apply(out, tensor_of(arguments.inputs[0]));
                            },
                            {.strided = strides == Strides::any, .in_place = in_place_inputs(request)});
}

/// By ATen on floats, by a loop on complex numbers, whose elements left over from vectors ATen rounds otherwise.
template <class F>
std::unique_ptr<Kernel> make_inexact(const KernelRequest& request, UnaryOperator apply, F) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_complex(dtype)) return make_unary(request, apply);
  return with_complex(dtype, [&]<class T>() { return make_map<T, T>(request, [](T x) { return F{}(x); }); });
}

/// By a loop on floats.
template <class F>
std::unique_ptr<Kernel> make_plain_float(const KernelRequest& request, F) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T>(request, [](T x) { return static_cast<T>(F{}(static_cast<Wide<T>>(x))); });
  });
}

/// By a loop on floats and complex numbers.
template <class F>
std::unique_ptr<Kernel> make_plain(const KernelRequest& request, F f) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_complex(dtype)) return make_plain_float(request, f);
  return with_complex(dtype, [&]<class T>() { return make_map<T, T>(request, [](T x) { return F{}(x); }); });
}

/// Of -|x|, whose exponential is finite; at::sigmoid computes the elements that fill no vector by another formula.
template <class T>
T logistic_of(T x) {
  const T e = std::exp(-std::abs(x)), below = e / (1 + e);
  return x > 0 ? 1 - below : below;
}

/// exp(x) - 1, accurate near 0 in both parts.
template <class T>
std::complex<T> less_one(std::complex<T> x) {
  const T half = std::sin(x.imag() / 2);
  return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * half * half, std::exp(x.real()) * std::sin(x.imag())};
}

/// log(1 + x), accurate near 0 in both parts.
template <class T>
std::complex<T> of_one_more(std::complex<T> x) {
  const T a = x.real(), b = x.imag();
  const T magnitude = std::abs(x) < T(0.5) ? std::log1p(a * (a + 2) + b * b) / 2 : std::log(std::abs(T(1) + x));
  return {magnitude, std::atan2(b, 1 + a)};
}

}  // namespace

std::unique_ptr<Kernel> ceil(const KernelRequest& request) { return make_unary(request, at::ceil_out, Strides::any); }
std::unique_ptr<Kernel> floor(const KernelRequest& request) { return make_unary(request, at::floor_out, Strides::any); }
std::unique_ptr<Kernel> round(const KernelRequest& request) { return make_unary(request, at::round_out, Strides::any); }

/// By a loop where ATen's vectors have a polynomial whose error is 1e-7 of 1, not of a small value.
std::unique_ptr<Kernel> erf(const KernelRequest& request) {
  if (request.inputs[0].dtype == DType::float64) return make_unary(request, at::erf_out);
  return make_plain_float(request, [](auto x) { return std::erf(x); });
}
std::unique_ptr<Kernel> erfc(const KernelRequest& request) { return make_unary(request, at::erfc_out); }
std::unique_ptr<Kernel> log2(const KernelRequest& request) { return make_unary(request, at::log2_out); }
std::unique_ptr<Kernel> erf_inv(const KernelRequest& request) { return make_unary(request, at::erfinv_out); }

std::unique_ptr<Kernel> acos(const KernelRequest& request) {
  return make_inexact(request, at::acos_out, [](auto x) { return std::acos(x); });
}
std::unique_ptr<Kernel> acosh(const KernelRequest& request) {
  return make_inexact(request, at::acosh_out, [](auto x) { return std::acosh(x); });
}
std::unique_ptr<Kernel> asin(const KernelRequest& request) {
  return make_inexact(request, at::asin_out, [](auto x) { return std::asin(x); });
}
std::unique_ptr<Kernel> asinh(const KernelRequest& request) {
  return make_inexact(request, at::asinh_out, [](auto x) { return std::asinh(x); });
}
std::unique_ptr<Kernel> atan(const KernelRequest& request) {
  return make_inexact(request, at::atan_out, [](auto x) { return std::atan(x); });
}
std::unique_ptr<Kernel> cos(const KernelRequest& request) {
  return make_inexact(request, at::cos_out, [](auto x) { return std::cos(x); });
}
std::unique_ptr<Kernel> exp(const KernelRequest& request) {
  return make_inexact(request, at::exp_out, [](auto x) { return std::exp(x); });
}
std::unique_ptr<Kernel> log(const KernelRequest& request) {
  return make_inexact(request, at::log_out, [](auto x) { return std::log(x); });
}
std::unique_ptr<Kernel> sin(const KernelRequest& request) {
  return make_inexact(request, at::sin_out, [](auto x) { return std::sin(x); });
}
std::unique_ptr<Kernel> tan(const KernelRequest& request) {
  return make_inexact(request, at::tan_out, [](auto x) { return std::tan(x); });
}
std::unique_ptr<Kernel> tanh(const KernelRequest& request) {
  return make_inexact(request, at::tanh_out, [](auto x) { return std::tanh(x); });
}
std::unique_ptr<Kernel> expm1(const KernelRequest& request) {
  return make_inexact(request, at::expm1_out, [](auto x) { return less_one(x); });
}
std::unique_ptr<Kernel> log1p(const KernelRequest& request) {
  return make_inexact(request, at::log1p_out, [](auto x) { return of_one_more(x); });
}

std::unique_ptr<Kernel> logistic(const KernelRequest& request) {
  return make_plain(request, [](auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>) {
      return logistic_of(x);
    } else {
      return decltype(x)(1) / (decltype(x)(1) + std::exp(-x));
    }
  });
}

// Own loops: ATen's square roots are not all correctly rounded.
std::unique_ptr<Kernel> sqrt(const KernelRequest& request) {
  return make_plain(request, [](auto x) { return std::sqrt(x); });
}
std::unique_ptr<Kernel> rsqrt(const KernelRequest& request) {
  return make_plain(request, [](auto x) { return decltype(x)(1) / std::sqrt(x); });
}

// Own loops: ATen computes the elements that fill no vector otherwise.
std::unique_ptr<Kernel> atanh(const KernelRequest& request) {
  return make_plain(request, [](auto x) { return std::atanh(x); });
}
std::unique_ptr<Kernel> cosh(const KernelRequest& request) {
  return make_plain(request, [](auto x) { return std::cosh(x); });
}
std::unique_ptr<Kernel> sinh(const KernelRequest& request) {
  return make_plain(request, [](auto x) { return std::sinh(x); });
}
std::unique_ptr<Kernel> exp2(const KernelRequest& request) {
  return make_plain_float(request, [](auto x) { return std::exp2(x); });
}

std::unique_ptr<Kernel> atan2(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype)) return nullptr;
  return with_float(dtype, [&]<class T>() {
    return make_map<T, T, T>(request, [](T y, T x) { return static_cast<T>(std::atan2(Wide<T>(y), Wide<T>(x))); });
  });
}

std::unique_ptr<Kernel> cbrt(const KernelRequest& request) {
  return make_plain_float(request, [](auto x) { return std::cbrt(x); });
}

}  // namespace lockstep::backend::aten::kernels
