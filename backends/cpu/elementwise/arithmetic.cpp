// Kernels of arithmetic in plain loops: sums, products, quotients, powers, signs.

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// A float without its sign, NaN likewise.
std::unique_ptr<Kernel> make_magnitude(const KernelRequest& request) {
  return with_bits(request.inputs[0].dtype, [&]<class T>() {
    return make_vector_map<T, T>(request, [](T bits) {
      constexpr T all_but_the_first = static_cast<T>(~T{0}) >> 1;
      return static_cast<T>(bits & all_but_the_first);
    });
  });
}

/// Integers modulo 2^n, as unsigned ones no narrower than int (narrower ones would be multiplied as int).
template <class T>
using Modular = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, T>;

template <class F>
std::unique_ptr<Kernel> make_modular(const KernelRequest& request, F) {
  if (!is_integer(request.inputs[0].dtype)) return nullptr;
  return with_bits(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T, T>(request, [](T a, T b) { return static_cast<T>(F{}(Modular<T>{a}, Modular<T>{b})); });
  });
}

/// One IEEE operation on floats; 16-bit ones are widened and rounded once.
template <class F>
std::unique_ptr<Kernel> make_exact(const KernelRequest& request, F) {
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_vector_map<T, T, T>(request, [](T a, T b) { return static_cast<T>(F{}(Wide<T>(a), Wide<T>(b))); });
  });
}

template <class T>
T negative(T x) {
  using Unsigned = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Unsigned>(0U - static_cast<Unsigned>(x)));
}

/// Towards zero; by zero, all bits set.
template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return negative(a);
  return static_cast<T>(a / b);
}

/// With the sign of `a`; by zero, `a`.
template <class T>
T truncated_remainder(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

template <class T>
T sign_of(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>((x > 0) - (x < 0));
  } else {
    const Wide<T> zero{0};
    const Wide<T> wide = x;
    return wide > zero ? T(1) : wide < zero ? T(-1) : x;
  }
}

/// A base of 0 has no logarithm to take the power by.
template <class T>
T complex_power(T x, T y) {
  if (y == T(0)) return T(1);
  if (x == T(0) && y.imag() == 0 && y.real() > 0) return T(0);
  return std::pow(x, y);
}

/// By repeated squaring.
template <class T>
T integer_power(T x, std::int64_t exponent) {
  T result(1);
  for (std::int64_t n = exponent; n != 0; n /= 2) {
    if (n % 2 != 0) result *= x;
    x *= x;
  }
  return exponent < 0 ? T(1) / result : result;
}

/// On the bits: magnitudes of one sign are ordered as integers.
template <class T>
T next_after(T x, T towards) {
  if constexpr (sizeof(T) >= sizeof(float)) {
    return std::nextafter(x, towards);
  } else {
    const float from = x;
    const float to = towards;
    if (std::isnan(from) || std::isnan(to)) return static_cast<T>(from + to);
    if (from == to) return towards;
    const bool upwards = to > from;
    const auto bits = std::bit_cast<std::uint16_t>(x);
    std::uint16_t next = upwards ? 0x0001 : 0x8001;
    if ((bits & 0x7FFF) != 0) {
      const bool negative = (bits & 0x8000) != 0;
      next = static_cast<std::uint16_t>(negative == upwards ? bits - 1 : bits + 1);
    }
    return std::bit_cast<T>(next);
  }
}

}  // namespace

std::unique_ptr<Kernel> add(const KernelRequest& request) {
  if (is_float(request.inputs[0].dtype)) return make_exact(request, [](auto a, auto b) { return a + b; });
  return make_modular(request, [](auto a, auto b) { return a + b; });
}

std::unique_ptr<Kernel> sub(const KernelRequest& request) {
  if (is_float(request.inputs[0].dtype)) return make_exact(request, [](auto a, auto b) { return a - b; });
  return make_modular(request, [](auto a, auto b) { return a - b; });
}

// Complex ones too: ATen's products and quotients are rounded otherwise in vectors than in the elements left over.
std::unique_ptr<Kernel> mul(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) {
    return with_complex(dtype, [&]<class T>() { return make_map<T, T, T>(request, [](T a, T b) { return a * b; }); });
  }
  if (!is_float(dtype)) return make_modular(request, [](auto a, auto b) { return a * b; });
  return make_exact(request, [](auto a, auto b) { return a * b; });
}

std::unique_ptr<Kernel> div(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) {
    return with_complex(dtype, [&]<class T>() { return make_map<T, T, T>(request, [](T a, T b) { return a / b; }); });
  }
  if (is_integer(dtype)) {
    return with_integer(dtype,
                        [&]<class T>() { return make_map<T, T, T>(request, [](T a, T b) { return quotient(a, b); }); });
  }
  return is_float(dtype) ? make_exact(request, [](auto a, auto b) { return a / b; }) : nullptr;
}

std::unique_ptr<Kernel> neg(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_float(dtype)) {
    return with_float(dtype, [&]<class T>() {
      return make_vector_map<T, T>(request, [](T x) { return static_cast<T>(-Wide<T>(x)); });
    });
  }
  if (!is_integer(dtype)) return nullptr;
  return with_bits(dtype, [&]<class T>() { return make_map<T, T>(request, [](T x) { return negative(x); }); });
}

std::unique_ptr<Kernel> abs(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) {
    return with_complex(dtype, [&]<class T>() {
      return make_map<typename T::value_type, T>(request, [](T x) { return std::abs(x); });
    });
  }
  if (is_float(dtype)) return make_magnitude(request);
  if (!is_integer(dtype)) return nullptr;
  return with_integer(dtype, [&]<class T>() {
    return make_map<T, T>(request, [](T x) { return std::is_signed_v<T> && x < 0 ? negative(x) : x; });
  });
}

std::unique_ptr<Kernel> sign(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) {
    return with_complex(dtype, [&]<class T>() {
      return make_map<T, T>(request, [](T x) { return x == T(0) || x != x ? x : x / std::abs(x); });
    });
  }
  if (!is_float(dtype) && !is_integer(dtype)) return nullptr;
  return with_real(dtype, [&]<class T>() { return make_map<T, T>(request, [](T x) { return sign_of(x); }); });
}

// Own loops: where zeros of both signs meet, ATen's vectors and the elements left over choose differently.
std::unique_ptr<Kernel> maximum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype) && !is_integer(dtype) && dtype != DType::bool_) return nullptr;
  return with_real(dtype, [&]<class T>() {
    return make_map<T, T, T>(request, [](T a, T b) { return Wide<T>(a) > Wide<T>(b) || a != a ? a : b; });
  });
}

std::unique_ptr<Kernel> minimum(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype) && !is_integer(dtype) && dtype != DType::bool_) return nullptr;
  return with_real(dtype, [&]<class T>() {
    return make_map<T, T, T>(request, [](T a, T b) { return Wide<T>(a) < Wide<T>(b) || a != a ? a : b; });
  });
}

std::unique_ptr<Kernel> rem(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_float(dtype)) {
    return with_float(dtype, [&]<class T>() {
      return make_map<T, T, T>(request, [](T a, T b) { return static_cast<T>(std::fmod(Wide<T>(a), Wide<T>(b))); });
    });
  }
  if (!is_integer(dtype)) return nullptr;
  return with_integer(
      dtype, [&]<class T>() { return make_map<T, T, T>(request, [](T a, T b) { return truncated_remainder(a, b); }); });
}

std::unique_ptr<Kernel> pow(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_complex(dtype)) {
    return with_complex(
        dtype, [&]<class T>() { return make_map<T, T, T>(request, [](T a, T b) { return complex_power(a, b); }); });
  }
  if (!is_float(dtype)) return nullptr;
  return with_float(dtype, [&]<class T>() {
    return make_map<T, T, T>(request, [](T a, T b) { return static_cast<T>(std::pow(Wide<T>(a), Wide<T>(b))); });
  });
}

std::unique_ptr<Kernel> integer_pow(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  const auto exponent = request.attrs.get<std::int64_t>("exponent");
  if (is_integer(dtype)) {
    return with_bits(dtype, [&]<class T>() {
      return make_map_with<T, T>(request,
                                 [exponent](T x) { return static_cast<T>(integer_power(Modular<T>{x}, exponent)); });
    });
  }
  if (is_complex(dtype)) {
    return with_complex(dtype, [&]<class T>() {
      return make_map_with<T, T>(request, [exponent](T x) { return integer_power(x, exponent); });
    });
  }
  if (!is_float(dtype)) return nullptr;
  return with_float(dtype, [&]<class T>() {
    return make_map_with<T, T>(
        request, [exponent](T x) { return static_cast<T>(integer_power(static_cast<Wide<T>>(x), exponent)); });
  });
}

std::unique_ptr<Kernel> nextafter(const KernelRequest& request) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype,
                    [&]<class T>() { return make_map<T, T, T>(request, [](T a, T b) { return next_after(a, b); }); });
}

std::unique_ptr<Kernel> fma(const KernelRequest& request) {
  if (!is_float(request.inputs[0].dtype)) return nullptr;
  return with_float(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T, T, T>(
        request, [](T a, T b, T c) { return static_cast<T>(std::fma(Wide<T>(a), Wide<T>(b), Wide<T>(c))); });
  });
}

}  // namespace lockstep::backend::cpu::kernels
