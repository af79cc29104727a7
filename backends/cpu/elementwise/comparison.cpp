#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>

#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

template <class Compare>
std::unique_ptr<Kernel> make_comparison(const KernelRequest& request, Compare) {
  return with_real(request.inputs[0].dtype, [&]<class T>() {
    return make_map<std::uint8_t, T, T>(
        request, [](T a, T b) -> std::uint8_t { return Compare{}(Wide<T>(a), Wide<T>(b)) ? 1 : 0; });
  });
}

template <class Compare>
std::unique_ptr<Kernel> make_ordering(const KernelRequest& request, Compare compare) {
  const DType dtype = request.inputs[0].dtype;
  return is_complex(dtype) || dtype == DType::key ? nullptr : make_comparison(request, compare);
}

template <class Compare>
std::unique_ptr<Kernel> make_equality(const KernelRequest& request, Compare compare) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::key) return nullptr;
  if (!is_complex(dtype)) return make_comparison(request, compare);
  return with_complex(dtype, [&]<class T>() {
    return make_map<std::uint8_t, T, T>(request, [](T a, T b) -> std::uint8_t { return Compare{}(a, b) ? 1 : 0; });
  });
}

}  // namespace

std::unique_ptr<Kernel> equal(const KernelRequest& request) { return make_equality(request, std::equal_to<>()); }
std::unique_ptr<Kernel> not_equal(const KernelRequest& request) {
  return make_equality(request, std::not_equal_to<>());
}
std::unique_ptr<Kernel> less(const KernelRequest& request) { return make_ordering(request, std::less<>()); }
std::unique_ptr<Kernel> less_equal(const KernelRequest& request) { return make_ordering(request, std::less_equal<>()); }
std::unique_ptr<Kernel> greater(const KernelRequest& request) { return make_ordering(request, std::greater<>()); }
std::unique_ptr<Kernel> greater_equal(const KernelRequest& request) {
  return make_ordering(request, std::greater_equal<>());
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
  return with_moved(request.outputs[0].dtype, [&]<class T>() {
    return make_map<T, std::uint8_t, T, T>(
        request, [](std::uint8_t predicate, T on_true, T on_false) { return predicate != 0 ? on_true : on_false; });
  });
}

}  // namespace lockstep::backend::cpu::kernels
