// The kernel of convert: elements of one dtype as those of another.
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/bfloat16.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// Towards zero; beyond the range its end; NaN is 0.
template <class To, class From>
To to_integer(From x) {
  // The upper bound is a power of two, so it is exact in any float type, unlike the largest integer.
  const From low = static_cast<From>(std::numeric_limits<To>::min());
  const From high = std::ldexp(From{1}, std::numeric_limits<To>::digits);
  if (x >= high) return std::numeric_limits<To>::max();
  if (x <= low) return std::numeric_limits<To>::min();
  return x != x ? To{0} : static_cast<To>(x);
}

template <class T>
constexpr bool is_complex_element = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

template <class To, class From>
To converted(From x) {
  if constexpr (is_complex_element<From> && is_complex_element<To>) {
    return To(x);
  } else if constexpr (is_complex_element<From>) {
    return converted<To>(x.real());
  } else if constexpr (is_complex_element<To>) {
    return To(static_cast<typename To::value_type>(Wide<From>(x)));
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    return to_integer<To>(Wide<From>(x));
  } else {
    return rounded<To>(static_cast<Wide<From>>(x));
  }
}

constexpr auto narrowed = [](std::uint32_t bits) { return rounded_to_bfloat16(bits); };

template <class F>
auto with_any(DType dtype, F&& f) {
  return is_complex(dtype) ? with_complex(dtype, f) : with_real(dtype, f);
}

}  // namespace

std::unique_ptr<Kernel> convert(const KernelRequest& request) {
  const DType from = request.inputs[0].dtype;
  const DType to = request.outputs[0].dtype;
  if (from == DType::key || to == DType::key) return nullptr;
  if (from == to) {
    return with_moved(from, [&]<class T>() { return make_vector_map<T, T>(request, [](T x) { return x; }); });
  }
  if (from == DType::float32 && to == DType::bfloat16) {
    return make_vector_map<std::uint16_t, std::uint32_t>(request, narrowed);
  }
  if (is_float(from) && is_float(to)) {
    return with_float(from, [&]<class From>() {
      return with_float(
          to, [&]<class To>() { return make_vector_map<To, From>(request, [](From x) { return converted<To>(x); }); });
    });
  }
  return with_any(from, [&]<class From>() -> std::unique_ptr<Kernel> {
    if (to == DType::bool_) {
      return make_map<std::uint8_t, From>(request, [](From x) -> std::uint8_t {
        if constexpr (is_complex_element<From>) return x.real() != 0 ? 1 : 0;
        return x != From(0) ? 1 : 0;
      });
    }
    return with_any(to,
                    [&]<class To>() { return make_map<To, From>(request, [](From x) { return converted<To>(x); }); });
  });
}

}  // namespace lockstep::backend::cpu::kernels
