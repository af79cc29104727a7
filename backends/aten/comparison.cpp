#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>

#include <ATen/ops/eq.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/where.h>

#include "backends/aten/element_types.h"
#include "backends/aten/kernel_table.h"
#include "backends/aten/plain_loops.h"
#include "backends/aten/tensors.h"

namespace lockstep::backends::aten::kernels {

namespace {

using Operator = at::Tensor& (*)(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

template <class Compare>
std::unique_ptr<Kernel> make_comparison(const KernelRequest& request, Operator apply, Compare) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::key) return nullptr;
  if (is_inexact(dtype)) {
    return make_function_kernel(request,
                                [apply](const KernelArguments& arguments) {
                                  at::Tensor out = tensor_of(arguments.outputs[0]);
                                  apply(out, tensor_of(arguments.inputs[0]), tensor_of(arguments.inputs[1]));
                                },
                                {.strided = true});
  }
  return with_integer(dtype, [&]<class T>() {
    return make_map<std::uint8_t, T, T>(request, [](T a, T b) { return static_cast<std::uint8_t>(Compare{}(a, b)); });
  });
}

}  // namespace

std::unique_ptr<Kernel> equal(const KernelRequest& request) {
  return make_comparison(request, at::eq_out, std::equal_to<>());
}
std::unique_ptr<Kernel> not_equal(const KernelRequest& request) {
  return make_comparison(request, at::ne_out, std::not_equal_to<>());
}
std::unique_ptr<Kernel> less(const KernelRequest& request) {
  return make_comparison(request, at::lt_out, std::less<>());
}
std::unique_ptr<Kernel> less_equal(const KernelRequest& request) {
  return make_comparison(request, at::le_out, std::less_equal<>());
}
std::unique_ptr<Kernel> greater(const KernelRequest& request) {
  return make_comparison(request, at::gt_out, std::greater<>());
}
std::unique_ptr<Kernel> greater_equal(const KernelRequest& request) {
  return make_comparison(request, at::ge_out, std::greater_equal<>());
}

std::unique_ptr<Kernel> is_finite(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) {
    return with_complex(dtype, [&]<class T>() {
      return make_map<std::uint8_t, T>(
          request, [](T x) -> std::uint8_t { return std::isfinite(x.real()) && std::isfinite(x.imag()) ? 1 : 0; });
    });
  }
  if (!is_float(dtype)) return nullptr;
  return with_float(dtype, [&]<class T>() {
    return make_map<std::uint8_t, T>(request, [](T x) -> std::uint8_t { return std::isfinite(Wide<T>(x)) ? 1 : 0; });
  });
}

std::unique_ptr<Kernel> select(const KernelRequest& request) {
  return make_function_kernel(request,
                              [](const KernelArguments& arguments) {
                                at::Tensor out = bits_of(arguments.outputs[0]);
                                at::where_out(out, tensor_of(arguments.inputs[0]), bits_of(arguments.inputs[1]),
                                              bits_of(arguments.inputs[2]));
                              },
                              {.strided = true, .in_place = in_place_inputs(request) & 0b110U});
}

}  // namespace lockstep::backends::aten::kernels
