#include <lockstep/backend/special_functions.h>

#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

// Every element is computed in double, so narrower dtypes are correct to their last bit but for double roundings.

template <class F>
std::unique_ptr<Kernel> make_special(const KernelRequest& request, F) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T>(request, [](T x) { return static_cast<T>(F{}(static_cast<double>(x))); });
  });
}

template <class F>
std::unique_ptr<Kernel> make_special_binary(const KernelRequest& request, F) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T, T>(
        request, [](T a, T x) { return static_cast<T>(F{}(static_cast<double>(a), static_cast<double>(x))); });
  });
}

template <class F>
std::unique_ptr<Kernel> make_special_ternary(const KernelRequest& request, F) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T, T, T>(request, [](T a, T b, T x) {
      return static_cast<T>(F{}(static_cast<double>(a), static_cast<double>(b), static_cast<double>(x)));
    });
  });
}

template <class F>
std::unique_ptr<Kernel> make_special_with(const KernelRequest& request, F f) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_map_with<T, T>(request, [f](T x) { return static_cast<T>(f(static_cast<double>(x))); });
  });
}

}  // namespace

std::unique_ptr<Kernel> lgamma(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::lgamma(x); });
}
std::unique_ptr<Kernel> digamma(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::digamma(x); });
}
std::unique_ptr<Kernel> bessel_i0e(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::bessel_i0e(x); });
}
std::unique_ptr<Kernel> bessel_i1e(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::bessel_i1e(x); });
}
std::unique_ptr<Kernel> bessel_j0(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::bessel_j0(x); });
}
std::unique_ptr<Kernel> bessel_j1(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::bessel_j1(x); });
}
std::unique_ptr<Kernel> exp1(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::exp1(x); });
}
std::unique_ptr<Kernel> expi(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::expi(x); });
}
std::unique_ptr<Kernel> spence(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::spence(x); });
}

std::unique_ptr<Kernel> dawsn(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::dawsn(x); });
}
std::unique_ptr<Kernel> erfcx(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::erfcx(x); });
}
std::unique_ptr<Kernel> sin_integral(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::sin_integral(x); });
}
std::unique_ptr<Kernel> cos_integral(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::cos_integral(x); });
}
std::unique_ptr<Kernel> fresnel_s(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::fresnel_s(x); });
}
std::unique_ptr<Kernel> fresnel_c(const KernelRequest& request) {
  return make_special(request, [](double x) { return special::fresnel_c(x); });
}

std::unique_ptr<Kernel> bessel_jn(const KernelRequest& request) {
  return make_special_with(request,
                           [n = request.attrs.get<std::int64_t>("n")](double x) { return special::bessel_jn(n, x); });
}
std::unique_ptr<Kernel> expn(const KernelRequest& request) {
  return make_special_with(request,
                           [n = request.attrs.get<std::int64_t>("n")](double x) { return special::expn(n, x); });
}

std::unique_ptr<Kernel> owens_t(const KernelRequest& request) {
  return make_special_binary(request, [](double h, double a) { return special::owens_t(h, a); });
}
std::unique_ptr<Kernel> igamma(const KernelRequest& request) {
  return make_special_binary(request, [](double a, double x) { return special::igamma(a, x); });
}
std::unique_ptr<Kernel> igammac(const KernelRequest& request) {
  return make_special_binary(request, [](double a, double x) { return special::igammac(a, x); });
}
std::unique_ptr<Kernel> igamma_grad_a(const KernelRequest& request) {
  return make_special_binary(request, [](double a, double x) { return special::igamma_grad_a(a, x); });
}

std::unique_ptr<Kernel> betainc(const KernelRequest& request) {
  return make_special_ternary(request, [](double a, double b, double x) { return special::betainc(a, b, x); });
}
std::unique_ptr<Kernel> hyp1f1(const KernelRequest& request) {
  return make_special_ternary(request, [](double a, double b, double x) { return special::hyp1f1(a, b, x); });
}
std::unique_ptr<Kernel> hyp2f1(const KernelRequest& request) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T, T, T, T>(request, [](T a, T b, T c, T x) {
      return static_cast<T>(special::hyp2f1(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c),
                                            static_cast<double>(x)));
    });
  });
}

std::unique_ptr<Kernel> zeta(const KernelRequest& request) {
  return make_special_with(request, [s = request.attrs.get<double>("s")](double q) { return special::zeta(s, q); });
}

std::unique_ptr<Kernel> reduce_precision(const KernelRequest& request) {
  const auto exponent_bits = static_cast<int>(request.attrs.get<std::int64_t>("exponent_bits"));
  const auto mantissa_bits = static_cast<int>(request.attrs.get<std::int64_t>("mantissa_bits"));
  const DType dtype = request.inputs[0].dtype;
  const int given = dtype == DType::float16 ? 5 : dtype == DType::float64 ? 11 : 8;
  return make_special_with(request,
                           [=](double x) { return special::reduce_precision(x, given, exponent_bits, mantissa_bits); });
}

}  // namespace lockstep::backend::cpu::kernels
