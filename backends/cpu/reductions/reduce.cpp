// Kernels of reductions in plain loops.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cpu/dims.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/moves/moves.h"
#include "backends/cpu/reductions/block_reductions.h"
#include "backends/cpu/reductions/ordered_sum.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// The operand's dimensions, split into those that stay and those that are reduced.
struct ReducedAxes {
  Shape kept, reduced;
  Strides kept_strides{}, reduced_strides{};

  ReducedAxes(const Shape& shape, const Dims& axes) {
    const std::vector<std::int64_t> strides = row_major_strides(shape);
    for (int d = 0; d < shape.rank(); ++d) {
      const bool drops = std::find(axes.begin(), axes.end(), d) != axes.end();
      Shape& side = drops ? reduced : kept;
      (drops ? reduced_strides : kept_strides)[static_cast<std::size_t>(side.rank())] =
          strides[static_cast<std::size_t>(d)];
      side.append(shape[d]);
    }
  }
};

using Fold = void (*)(const ReducedAxes& axes, const KernelArguments& arguments);

/// out = the elements of each reduced block folded by F from F::first on, row-major; computed as Sum.
template <class T, class Sum, class F>
void fold(const ReducedAxes& axes, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  const LoopNest<1> blocks(axes.kept, {axes.kept_strides.data()});
  const LoopNest<1> elements(axes.reduced, {axes.reduced_strides.data()});
  blocks.for_each_row([&](const auto& block, std::int64_t count, const auto& block_step) {
    for (std::int64_t b = 0; b < count; ++b) {
      const T* from = x + block[0] + b * block_step[0];
      Sum sum = F::template first<Sum>();
      elements.for_each_row([&](const auto& row, std::int64_t n, const auto& step) {
        const T* const first = from + row[0];
        if (step[0] == 1) {  // Vectorised.
          for (std::int64_t i = 0; i < n; ++i) sum = F{}(sum, static_cast<Sum>(first[i]));
        } else {
          for (std::int64_t i = 0; i < n; ++i) sum = F{}(sum, static_cast<Sum>(first[i * step[0]]));
        }
      });
      *out++ = static_cast<T>(sum);
    }
  });
}

std::unique_ptr<Kernel> make_fold(const KernelRequest& request, Fold run) {
  return make_function_kernel([run, axes = ReducedAxes(request.inputs[0].shape, request.attrs.get<Dims>("axes"))](
                                  const KernelArguments& arguments) { run(axes, arguments); });
}

struct FoldSum {
  template <class T>
  static T first() {
    return T(0);
  }
  template <class T>
  T operator()(T sum, T x) const {
    return sum + x;
  }
};

struct FoldProduct {
  template <class T>
  static T first() {
    return T(1);
  }
  template <class T>
  T operator()(T product, T x) const {
    return product * x;
  }
};

struct Largest {
  template <class T>
  static T first() {
    return std::numeric_limits<T>::min();
  }
  template <class T>
  T operator()(T best, T x) const {
    return x > best ? x : best;
  }
};

struct Smallest {
  template <class T>
  static T first() {
    return std::numeric_limits<T>::max();
  }
  template <class T>
  T operator()(T best, T x) const {
    return x < best ? x : best;
  }
};

struct And {
  template <class T>
  static T first() {
    return std::is_same_v<T, bool> ? T(1) : static_cast<T>(T(0) - T(1));
  }
  template <class T>
  T operator()(T bits, T x) const {
    return static_cast<T>(bits & x);
  }
};

struct Or {
  template <class T>
  static T first() {
    return T(0);
  }
  template <class T>
  T operator()(T bits, T x) const {
    return static_cast<T>(bits | x);
  }
};

struct Xor : Or {
  template <class T>
  T operator()(T bits, T x) const {
    return static_cast<T>(bits ^ x);
  }
};

template <class F>
std::unique_ptr<Kernel> make_bit_fold(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::bool_) return make_fold(request, fold<bool, bool, F>);
  if (!is_integer(dtype)) return nullptr;
  return with_bits(dtype, [&]<class T>() { return make_fold(request, fold<T, T, F>); });
}

/// The extremum of no elements.
std::unique_ptr<Kernel> make_limit(const KernelRequest& request, float limit) {
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_function_kernel([element = static_cast<T>(limit)](const KernelArguments& arguments) {
      fill_elements(arguments.outputs[0], &element);
    });
  });
}

template <class F>
std::unique_ptr<Kernel> make_extremum(const KernelRequest& request) {
  const ArrayType& x = request.inputs[0];
  if (is_float(x.dtype)) {
    constexpr bool is_largest = std::is_same_v<F, Largest>;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (x.size() == 0) return make_limit(request, is_largest ? -infinity : infinity);
    return is_largest ? make_block_max(request) : make_block_min(request);
  }
  if (is_integer(x.dtype)) {
    return with_integer(x.dtype, [&]<class T>() { return make_fold(request, fold<T, T, F>); });
  }
  return x.dtype == DType::bool_ ? make_fold(request, fold<bool, bool, F>) : nullptr;
}

}  // namespace

std::unique_ptr<Kernel> reduce_sum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (request.attrs.has("sum_blocks")) return make_ordered_sum(request);
  if (is_float(dtype)) return make_block_sum(request);
  if (!is_integer(dtype)) return nullptr;
  return with_bits(dtype, [&]<class T>() { return make_fold(request, fold<T, std::uint64_t, FoldSum>); });
}

std::unique_ptr<Kernel> reduce_prod(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) {
    return with_complex(dtype, [&]<class T>() { return make_fold(request, fold<T, T, FoldProduct>); });
  }
  if (is_float(dtype)) {
    return with_float(dtype, [&]<class T>() { return make_fold(request, fold<T, Wide<T>, FoldProduct>); });
  }
  if (!is_integer(dtype)) return nullptr;
  return with_bits(dtype, [&]<class T>() { return make_fold(request, fold<T, std::uint64_t, FoldProduct>); });
}

std::unique_ptr<Kernel> reduce_and(const KernelRequest& request) { return make_bit_fold<And>(request); }
std::unique_ptr<Kernel> reduce_or(const KernelRequest& request) { return make_bit_fold<Or>(request); }
std::unique_ptr<Kernel> reduce_xor(const KernelRequest& request) { return make_bit_fold<Xor>(request); }

std::unique_ptr<Kernel> reduce_max(const KernelRequest& request) { return make_extremum<Largest>(request); }
std::unique_ptr<Kernel> reduce_min(const KernelRequest& request) { return make_extremum<Smallest>(request); }

}  // namespace lockstep::backend::cpu::kernels
