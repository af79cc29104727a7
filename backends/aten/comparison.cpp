#include <array>
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

#include "backends/aten/element_types.h"
#include "backends/aten/kernel_table.h"
#include "backends/aten/loop_nest.h"
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

namespace {

/// One row; a step is 1, or 0 where one element serves the whole row. The result may lie where an operand does.
template <class Bits, int a_step, int b_step>
void select_row(const std::uint8_t* predicate, const Bits* a, const Bits* b, Bits* out, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const Bits on_true = a[i * a_step];
    const Bits on_false = b[i * b_step];
    out[i] = predicate[i] != 0 ? on_true : on_false;
  }
}

/// ATen's `where` goes element by element; selecting bits of one width is a blend.
template <class Bits>
void select_bits(const KernelArguments& arguments) {
  const ArrayView& out = arguments.outputs[0];
  const auto& in = arguments.inputs;
  const LoopNest<4> nest(out.shape,
                         {in[0].strides.data(), in[1].strides.data(), in[2].strides.data(), out.strides.data()});
  nest.for_each_row([&](const auto& offsets, std::int64_t count, const auto& steps) {
    const auto* predicate = static_cast<const std::uint8_t*>(in[0].data) + offsets[0];
    const auto* a = static_cast<const Bits*>(in[1].data) + offsets[1];
    const auto* b = static_cast<const Bits*>(in[2].data) + offsets[2];
    auto* result = static_cast<Bits*>(out.data) + offsets[3];
    const bool unit = steps[0] == 1 && steps[3] == 1;
    if (unit && steps[1] == 1 && steps[2] == 1) return select_row<Bits, 1, 1>(predicate, a, b, result, count);
    if (unit && steps[1] == 0 && steps[2] == 1) return select_row<Bits, 0, 1>(predicate, a, b, result, count);
    if (unit && steps[1] == 1 && steps[2] == 0) return select_row<Bits, 1, 0>(predicate, a, b, result, count);
    for (std::int64_t i = 0; i < count; ++i) {
      result[i * steps[3]] = predicate[i * steps[0]] != 0 ? a[i * steps[1]] : b[i * steps[2]];
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> select(const KernelRequest& request) {
  void (*run)(const KernelArguments&) = nullptr;
  switch (size_of(request.outputs[0].dtype)) {
    case 1:
      run = select_bits<std::uint8_t>;
      break;
    case 2:
      run = select_bits<std::uint16_t>;
      break;
    case 4:
      run = select_bits<std::uint32_t>;
      break;
    case 8:
      run = select_bits<std::uint64_t>;
      break;
    default:
      run = select_bits<std::array<std::uint64_t, 2>>;
      break;
  }
  return make_function_kernel(request, run, {.strided = true, .in_place = in_place_inputs(request) & 0b110U});
}

}  // namespace lockstep::backends::aten::kernels
