#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/aten/around.h"
#include "backends/aten/element_types.h"
#include "backends/aten/function_kernel.h"
#include "backends/aten/kernel_table.h"

namespace lockstep::backends::aten::kernels {

namespace {

struct Line {
  std::int64_t first;  ///< Offset of the element the accumulation starts at.
  std::int64_t step;
  std::int64_t count;
};

/// Calls visit(line) for every line along the dimension, in the direction of the accumulation.
template <class Visit>
void for_each_line(const Around& around, bool reverse, Visit visit) {
  if (around.extent == 0) return;
  const std::int64_t end = (around.extent - 1) * around.inner;
  for (std::int64_t o = 0; o < around.outer; ++o) {
    for (std::int64_t i = 0; i < around.inner; ++i) {
      const std::int64_t start = o * around.extent * around.inner + i;
      visit(Line{reverse ? start + end : start, reverse ? -around.inner : around.inner, around.extent});
    }
  }
}

using Run = void (*)(const Around& around, bool reverse, const KernelArguments& arguments);

std::unique_ptr<Kernel> make_lines(const KernelRequest& request, Run run) {
  const Around around(request.outputs[0].shape, static_cast<int>(request.attrs.get<std::int64_t>("axis")));
  const bool reverse = request.attrs.get<bool>("reverse");
  return make_function_kernel(
      request, [run, around, reverse](const KernelArguments& arguments) { run(around, reverse, arguments); });
}

/// out[i] = F(out[i-1], x[i]); what is carried along is of type Carried.
template <class T, class Carried, class F>
void accumulate(const Around& around, bool reverse, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  for_each_line(around, reverse, [&](const Line& line) {
    std::int64_t at = line.first;
    Carried carried = static_cast<Carried>(x[at]);
    out[at] = static_cast<T>(carried);
    for (std::int64_t k = 1; k < line.count; ++k) {
      at += line.step;
      carried = F{}(carried, static_cast<Carried>(x[at]));
      out[at] = static_cast<T>(carried);
    }
  });
}

template <class T>
void recur(const Around& around, bool reverse, const KernelArguments& arguments) {
  const T* a = static_cast<const T*>(arguments.inputs[0].data);
  const T* b = static_cast<const T*>(arguments.inputs[1].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  for_each_line(around, reverse, [&](const Line& line) {
    std::int64_t at = line.first;
    Wide<T> carried = static_cast<Wide<T>>(b[at]);
    out[at] = static_cast<T>(carried);
    for (std::int64_t k = 1; k < line.count; ++k) {
      at += line.step;
      carried = static_cast<Wide<T>>(a[at]) * carried + static_cast<Wide<T>>(b[at]);
      out[at] = static_cast<T>(carried);
    }
  });
}

struct Sum {
  template <class T>
  T operator()(T sum, T x) const {
    return static_cast<T>(sum + x);
  }
};
struct Product {
  template <class T>
  T operator()(T product, T x) const {
    return static_cast<T>(product * x);
  }
};
struct Largest {
  template <class T>
  T operator()(T best, T x) const {
    return x > best || x != x ? x : best;
  }
};
struct Smallest {
  template <class T>
  T operator()(T best, T x) const {
    return x < best || x != x ? x : best;
  }
};
struct LogAddExp {
  template <class T>
  T operator()(T a, T b) const {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    const T top = std::max(a, b);
    return std::isinf(top) ? top : top + std::log1p(std::exp(std::min(a, b) - top));
  }
};

/// Integers modulo 2^n.
template <class F>
std::unique_ptr<Kernel> make_numeric(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype))
    return with_complex(dtype, [&]<class T>() { return make_lines(request, accumulate<T, T, F>); });
  if (is_float(dtype)) {
    return with_float(dtype, [&]<class T>() { return make_lines(request, accumulate<T, Wide<T>, F>); });
  }
  if (!is_integer(dtype)) return nullptr;
  return with_bits(dtype, [&]<class T>() { return make_lines(request, accumulate<T, std::uint64_t, F>); });
}

template <class F>
std::unique_ptr<Kernel> make_extremum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype) && !is_integer(dtype)) return nullptr;
  return with_real(dtype, [&]<class T>() { return make_lines(request, accumulate<T, Wide<T>, F>); });
}

}  // namespace

std::unique_ptr<Kernel> cumsum(const KernelRequest& request) { return make_numeric<Sum>(request); }
std::unique_ptr<Kernel> cumprod(const KernelRequest& request) { return make_numeric<Product>(request); }
std::unique_ptr<Kernel> cummax(const KernelRequest& request) { return make_extremum<Largest>(request); }
std::unique_ptr<Kernel> cummin(const KernelRequest& request) { return make_extremum<Smallest>(request); }

std::unique_ptr<Kernel> cumlogsumexp(const KernelRequest& request) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype,
                    [&]<class T>() { return make_lines(request, accumulate<T, Wide<T>, LogAddExp>); });
}

std::unique_ptr<Kernel> linear_recurrence(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) return with_complex(dtype, [&]<class T>() { return make_lines(request, recur<T>); });
  if (!is_float(dtype)) return nullptr;
  return with_float(dtype, [&]<class T>() { return make_lines(request, recur<T>); });
}

}  // namespace lockstep::backends::aten::kernels
