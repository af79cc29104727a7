#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "backends/cpu/around.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

struct Line {
  std::int64_t first;  ///< Offset of the element the accumulation starts at.
  std::int64_t step;
  std::int64_t count;
};

/// What elements are read as, without rounding; integers, given as unsigned ones, modulo 2^64.
template <class T>
using Wider =
    std::conditional_t<std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>,
                       std::complex<double>, std::conditional_t<std::is_unsigned_v<T>, std::uint64_t, double>>;

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

using RunLines = void (*)(const Around& around, bool reverse, const KernelArguments& arguments);

std::unique_ptr<Kernel> make_lines(const KernelRequest& request, RunLines run) {
  const Around around(request.outputs[0].shape, static_cast<int>(request.attrs.get<std::int64_t>("axis")));
  const bool reverse = request.attrs.get<bool>("reverse");
  return make_function_kernel(
      [run, around, reverse](const KernelArguments& arguments) { run(around, reverse, arguments); });
}

/// A number of twice a double's digits: the unevaluated sum of both, of which `high` is the rounded one. Where that is
/// infinite or NaN, `low` is 0. Dekker 1971; the product's error by a fused multiply-add.
struct Doubled {
  double high = 0, low = 0;

  explicit operator double() const { return high; }
};

/// high + low, `low` being at most about as large as the rounding of `high`.
Doubled normalized(double high, double low) {
  const double sum = high + low;
  return {sum, std::isfinite(sum) ? low - (sum - high) : 0};
}
Doubled doubled_plus(Doubled a, double b) {
  const double sum = a.high + b;
  const double part = sum - a.high;
  const double rest = (a.high - (sum - part)) + (b - part);
  return normalized(sum, std::isfinite(sum) ? rest + a.low : 0);
}
Doubled times(Doubled a, double b) {
  const double product = a.high * b;
  return normalized(product, std::isfinite(product) ? std::fma(a.high, b, -product) + a.low * b : 0);
}

/// What each kind of element is carried along in: wide enough for a prefix of any length to be as exact as its dtype.
template <class T>
struct CarriedOf {
  using Type = std::conditional_t<std::is_same_v<T, double>, Doubled, Wider<T>>;
};
template <class T>
using Carried = typename CarriedOf<T>::Type;

/// A carried number rounded to an element.
template <class T, class C>
T rounded_element(const C& carried) {
  if constexpr (std::is_same_v<T, std::complex<float>>) {
    return {static_cast<float>(carried.real()), static_cast<float>(carried.imag())};
  } else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return rounded<T>(static_cast<double>(carried));
  } else {
    return static_cast<T>(carried);
  }
}

/// out[i] = step(carried, x[i]) from start(x[0]) on, one by one.
template <class T, class F>
void accumulate_lines(const Around& around, bool reverse, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  for_each_line(around, reverse, [&](const Line& line) {
    std::int64_t at = line.first;
    F state(x[at]);
    out[at] = x[at];
    for (std::int64_t k = 1; k < line.count; ++k) {
      at += line.step;
      out[at] = state.joined(x[at]);
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
    Carried<T> carried{static_cast<Wider<T>>(b[at])};
    out[at] = b[at];
    for (std::int64_t k = 1; k < line.count; ++k) {
      at += line.step;
      const auto factor = static_cast<Wider<T>>(a[at]), added = static_cast<Wider<T>>(b[at]);
      if constexpr (std::is_same_v<T, double>) {
        carried = doubled_plus(times(carried, factor), added);
      } else {
        carried = factor * carried + added;
      }
      out[at] = rounded_element<T>(carried);
    }
  });
}

template <class T>
class Sum {
 public:
  explicit Sum(T x) : sum_{static_cast<Wider<T>>(x)} {}
  T joined(T x) {
    if constexpr (std::is_same_v<T, double>) {
      sum_ = doubled_plus(sum_, x);
    } else {
      sum_ += static_cast<Wider<T>>(x);
    }
    return rounded_element<T>(sum_);
  }

 private:
  Carried<T> sum_;
};

/// Parts apart, each in twice its digits.
template <>
class Sum<std::complex<double>> {
 public:
  explicit Sum(std::complex<double> x) : re_(x.real()), im_(x.imag()) {}
  std::complex<double> joined(std::complex<double> x) { return {re_.joined(x.real()), im_.joined(x.imag())}; }

 private:
  Sum<double> re_, im_;
};

template <class T>
class Product {
 public:
  explicit Product(T x) : product_{static_cast<Wider<T>>(x)} {}
  T joined(T x) {
    if constexpr (std::is_same_v<T, double>) {
      product_ = times(product_, x);
    } else {
      product_ *= static_cast<Wider<T>>(x);
    }
    return rounded_element<T>(product_);
  }

 private:
  Carried<T> product_;
};

/// Integers modulo 2^n.
template <class T, class Operation>
class Wrapping {
 public:
  explicit Wrapping(T x) : value_(x) {}
  T joined(T x) { return value_ = static_cast<T>(Operation{}(std::uint64_t{value_}, std::uint64_t{x})); }

 private:
  T value_;
};
template <class T>
using WrappingSum = Wrapping<T, std::plus<std::uint64_t>>;
template <class T>
using WrappingProduct = Wrapping<T, std::multiplies<std::uint64_t>>;

template <class T>
class LargestSoFar {
 public:
  explicit LargestSoFar(T x) : best_(x) {}
  T joined(T x) { return best_ = x > best_ || x != x ? x : best_; }

 private:
  T best_;
};
template <class T>
class SmallestSoFar {
 public:
  explicit SmallestSoFar(T x) : best_(x) {}
  T joined(T x) { return best_ = x < best_ || x != x ? x : best_; }

 private:
  T best_;
};

/// log(sum of exp(x - level)) + level, the sum in twice a double's digits. The level is the largest element, or one so
/// little below that the sum is far from overflowing: so it seldom changes, which rounds.
template <class T>
class LogSumExp {
 public:
  explicit LogSumExp(T x) : level_(static_cast<double>(x)), sum_{1} {}
  T joined(T element) {
    constexpr double most_above = 30;
    const double x = static_cast<double>(element);
    if (x == level_) {
      sum_ = doubled_plus(sum_, 1);
    } else if (x > level_ + most_above) {
      sum_ = doubled_plus(times(sum_, std::exp(level_ - x)), 1);
      level_ = x;
    } else {
      sum_ = doubled_plus(sum_, std::exp(x - level_));
    }
    if (std::isinf(level_)) return rounded_element<T>(std::isnan(sum_.high) ? sum_.high : level_);
    return rounded_element<T>(level_ + (std::log(sum_.high) + sum_.low / sum_.high));
  }

 private:
  double level_;
  Doubled sum_;
};

template <template <class> class F, template <class> class Wrapping>
std::unique_ptr<Kernel> make_numeric(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype))
    return with_complex(dtype, [&]<class T>() { return make_lines(request, accumulate_lines<T, F<T>>); });
  if (is_float(dtype))
    return with_float(dtype, [&]<class T>() { return make_lines(request, accumulate_lines<T, F<T>>); });
  if (!is_integer(dtype)) return nullptr;
  return with_bits(dtype, [&]<class T>() { return make_lines(request, accumulate_lines<T, Wrapping<T>>); });
}

template <template <class> class F>
std::unique_ptr<Kernel> make_cumulative_extremum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype) && !is_integer(dtype)) return nullptr;
  return with_real(dtype, [&]<class T>() { return make_lines(request, accumulate_lines<T, F<T>>); });
}

}  // namespace

std::unique_ptr<Kernel> cumsum(const KernelRequest& request) { return make_numeric<Sum, WrappingSum>(request); }
std::unique_ptr<Kernel> cumprod(const KernelRequest& request) {
  return make_numeric<Product, WrappingProduct>(request);
}
std::unique_ptr<Kernel> cummax(const KernelRequest& request) { return make_cumulative_extremum<LargestSoFar>(request); }
std::unique_ptr<Kernel> cummin(const KernelRequest& request) {
  return make_cumulative_extremum<SmallestSoFar>(request);
}

std::unique_ptr<Kernel> cumlogsumexp(const KernelRequest& request) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype,
                    [&]<class T>() { return make_lines(request, accumulate_lines<T, LogSumExp<T>>); });
}

std::unique_ptr<Kernel> linear_recurrence(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) return with_complex(dtype, [&]<class T>() { return make_lines(request, recur<T>); });
  if (is_float(dtype)) return with_float(dtype, [&]<class T>() { return make_lines(request, recur<T>); });
  if (!is_integer(dtype)) return nullptr;
  return with_bits(dtype, [&]<class T>() { return make_lines(request, recur<T>); });
}

}  // namespace lockstep::backend::cpu::kernels
