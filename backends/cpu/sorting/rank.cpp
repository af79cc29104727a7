#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "backends/cpu/around.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// Whether `a` stands before `b` in the order; NaN is beyond every number in both.
template <bool descending, class T>
bool ranks_before(T a, T b) {
  if (a != a || b != b) return a != a && b == b;
  return descending ? a > b : a < b;
}

using ArgExtremum = void (*)(const Around& around, const KernelArguments& arguments);

template <class T, class Index, bool largest>
void arg_extremum(const Around& around, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  Index* out = static_cast<Index*>(arguments.outputs[0].data);
  for (std::int64_t o = 0; o < around.outer; ++o, x += around.extent * around.inner) {
    for (std::int64_t i = 0; i < around.inner; ++i) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < around.extent; ++k) {
        if (ranks_before<largest, Wide<T>>(x[k * around.inner + i], x[best * around.inner + i])) best = k;
      }
      *out++ = static_cast<Index>(best);
    }
  }
}

template <bool largest>
std::unique_ptr<Kernel> make_arg_extremum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype) || dtype == DType::key) return nullptr;
  const DType positions = request.outputs[0].dtype;
  if (positions != DType::int32 && positions != DType::int64) return nullptr;
  const Around around(request.inputs[0].shape, static_cast<int>(request.attrs.get<std::int64_t>("axis")));
  return with_real(dtype, [&]<class T>() {
    const ArgExtremum run =
        positions == DType::int32 ? arg_extremum<T, std::int32_t, largest> : arg_extremum<T, std::int64_t, largest>;
    return make_function_kernel([run, around](const KernelArguments& arguments) { run(around, arguments); });
  });
}

using TopK = void (*)(std::int64_t rows, std::int64_t extent, std::int64_t k, const KernelArguments& arguments);

template <class T>
void top_k_rows(std::int64_t rows, std::int64_t extent, std::int64_t k, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  T* values = static_cast<T*>(arguments.outputs[0].data);
  std::int32_t* positions = static_cast<std::int32_t*>(arguments.outputs[1].data);
  std::vector<std::int32_t> order(static_cast<std::size_t>(extent));
  for (std::int64_t row = 0; row < rows; ++row, x += extent) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [x](std::int32_t a, std::int32_t b) {
      const Wide<T> left = x[a];
      const Wide<T> right = x[b];
      if (ranks_before<true>(left, right)) return true;
      return !ranks_before<true>(right, left) && a < b;
    });
    for (std::int64_t i = 0; i < k; ++i) {
      *positions++ = order[static_cast<std::size_t>(i)];
      *values++ = x[order[static_cast<std::size_t>(i)]];
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> argmax(const KernelRequest& request) { return make_arg_extremum<true>(request); }
std::unique_ptr<Kernel> argmin(const KernelRequest& request) { return make_arg_extremum<false>(request); }

std::unique_ptr<Kernel> top_k(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype) || dtype == DType::key) return nullptr;
  const std::int64_t extent = request.inputs[0].shape.dim(-1);
  const std::int64_t rows = extent == 0 ? 0 : request.inputs[0].size() / extent;
  const std::int64_t k = request.attrs.get<std::int64_t>("k");
  return with_real(dtype, [&]<class T>() {
    return make_function_kernel([run = TopK(top_k_rows<T>), rows, extent, k](const KernelArguments& arguments) {
      run(rows, extent, k, arguments);
    });
  });
}

}  // namespace lockstep::backend::cpu::kernels
