#include <complex>

#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// A loop from complex numbers to `Result<T>`.
template <template <class> class Result, class F>
std::unique_ptr<Kernel> make_complex_map(const KernelRequest& request, F) {
  if (!is_complex(request.inputs[0].dtype)) return nullptr;
  return with_complex(request.inputs[0].dtype,
                      [&]<class T>() { return make_map<Result<T>, T>(request, [](T x) { return F{}(x); }); });
}

template <class T>
using Part = typename T::value_type;
template <class T>
using Whole = T;

}  // namespace

std::unique_ptr<Kernel> complex(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::float32) {
    return make_map<std::complex<float>, float, float>(request,
                                                       [](float re, float im) { return std::complex<float>(re, im); });
  }
  if (dtype != DType::float64) return nullptr;
  return make_map<std::complex<double>, double, double>(
      request, [](double re, double im) { return std::complex<double>(re, im); });
}

std::unique_ptr<Kernel> real(const KernelRequest& request) {
  return make_complex_map<Part>(request, [](auto x) { return x.real(); });
}
std::unique_ptr<Kernel> imag(const KernelRequest& request) {
  return make_complex_map<Part>(request, [](auto x) { return x.imag(); });
}
std::unique_ptr<Kernel> conj(const KernelRequest& request) {
  return make_complex_map<Whole>(request, [](auto x) { return std::conj(x); });
}

}  // namespace lockstep::backend::cpu::kernels
