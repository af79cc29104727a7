// Kernels of functions of one or two numbers that are loops over those of the standard library: of floats where each
// element's value is the same wherever it stands and however many there are, and of complex numbers.
#include <cmath>
#include <complex>
#include <type_traits>

#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// On complex numbers only.
template <class F>
std::unique_ptr<Kernel> make_plain_complex(const KernelRequest& request, F) {
  if (!is_complex(request.inputs[0].dtype)) return nullptr;
  return with_complex(request.inputs[0].dtype,
                      [&]<class T>() { return make_map<T, T>(request, [](T x) { return F{}(x); }); });
}

/// On floats only.
template <class F>
std::unique_ptr<Kernel> make_plain_float(const KernelRequest& request, F) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T>(request, [](T x) { return static_cast<T>(F{}(static_cast<Wide<T>>(x))); });
  });
}

/// The same for an F that gives whole numbers, for which processors have instructions.
template <class F>
std::unique_ptr<Kernel> make_rounding(const KernelRequest& request, F) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_vector_map<T, T>(request, [](T x) { return static_cast<T>(F{}(static_cast<Wide<T>>(x))); });
  });
}

/// On floats and complex numbers.
template <class F>
std::unique_ptr<Kernel> make_plain_inexact(const KernelRequest& request, F f) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_complex(dtype)) return make_plain_float(request, f);
  return with_complex(dtype, [&]<class T>() { return make_map<T, T>(request, [](T x) { return F{}(x); }); });
}

/// Of -|x|, whose exponential is finite.
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

std::unique_ptr<Kernel> ceil(const KernelRequest& request) {
  return make_rounding(request, [](auto x) { return std::ceil(x); });
}
std::unique_ptr<Kernel> floor(const KernelRequest& request) {
  return make_rounding(request, [](auto x) { return std::floor(x); });
}
/// Halves to the even neighbour.
std::unique_ptr<Kernel> round(const KernelRequest& request) {
  return make_rounding(request, [](auto x) { return std::nearbyint(x); });
}

std::unique_ptr<Kernel> erf(const KernelRequest& request) {
  if (request.inputs[0].dtype == DType::float64) return nullptr;
  return make_plain_float(request, [](auto x) { return std::erf(x); });
}

std::unique_ptr<Kernel> acos(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::acos(x); });
}
std::unique_ptr<Kernel> acosh(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::acosh(x); });
}
std::unique_ptr<Kernel> asin(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::asin(x); });
}
std::unique_ptr<Kernel> asinh(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::asinh(x); });
}
std::unique_ptr<Kernel> atan(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::atan(x); });
}
std::unique_ptr<Kernel> cos(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::cos(x); });
}
std::unique_ptr<Kernel> exp(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::exp(x); });
}
std::unique_ptr<Kernel> log(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::log(x); });
}
std::unique_ptr<Kernel> sin(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::sin(x); });
}
std::unique_ptr<Kernel> tan(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::tan(x); });
}
std::unique_ptr<Kernel> tanh(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return std::tanh(x); });
}
std::unique_ptr<Kernel> expm1(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return less_one(x); });
}
std::unique_ptr<Kernel> log1p(const KernelRequest& request) {
  return make_plain_complex(request, [](auto x) { return of_one_more(x); });
}

std::unique_ptr<Kernel> logistic(const KernelRequest& request) {
  return make_plain_inexact(request, [](auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>) {
      return logistic_of(x);
    } else {
      return decltype(x)(1) / (decltype(x)(1) + std::exp(-x));
    }
  });
}

std::unique_ptr<Kernel> sqrt(const KernelRequest& request) {
  return make_plain_inexact(request, [](auto x) { return std::sqrt(x); });
}
std::unique_ptr<Kernel> rsqrt(const KernelRequest& request) {
  return make_plain_inexact(request, [](auto x) { return decltype(x)(1) / std::sqrt(x); });
}

std::unique_ptr<Kernel> atanh(const KernelRequest& request) {
  return make_plain_inexact(request, [](auto x) { return std::atanh(x); });
}
std::unique_ptr<Kernel> cosh(const KernelRequest& request) {
  return make_plain_inexact(request, [](auto x) { return std::cosh(x); });
}
std::unique_ptr<Kernel> sinh(const KernelRequest& request) {
  return make_plain_inexact(request, [](auto x) { return std::sinh(x); });
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

}  // namespace lockstep::backend::cpu::kernels
