#include <bit>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

bool has_bits(DType dtype) { return is_integer(dtype) || dtype == DType::bool_; }

template <class F>
std::unique_ptr<Kernel> make_bitwise(const KernelRequest& request, F) {
  if (!has_bits(request.inputs[0].dtype)) return nullptr;
  return with_bits(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T, T>(request, [](T a, T b) { return static_cast<T>(F{}(a, b)); });
  });
}

template <class T>
constexpr T bits_of = sizeof(T) * 8;

/// Amounts are unsigned; one of the width or more shifts everything out.
template <class T>
T left(T a, T amount) {
  return amount < bits_of<T> ? static_cast<T>(a << amount) : T{0};
}

template <class T>
T right_logical(T a, T amount) {
  return amount < bits_of<T> ? static_cast<T>(a >> amount) : T{0};
}

template <class T>
T right_arithmetic(T a, T amount) {
  using Signed = std::make_signed_t<T>;
  const T most = bits_of<T> - 1;
  return static_cast<T>(static_cast<Signed>(a) >> (amount < most ? amount : most));
}

}  // namespace

std::unique_ptr<Kernel> bitwise_and(const KernelRequest& request) { return make_bitwise(request, std::bit_and<>()); }
std::unique_ptr<Kernel> bitwise_or(const KernelRequest& request) { return make_bitwise(request, std::bit_or<>()); }
std::unique_ptr<Kernel> bitwise_xor(const KernelRequest& request) { return make_bitwise(request, std::bit_xor<>()); }

std::unique_ptr<Kernel> bitwise_not(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!has_bits(dtype)) return nullptr;
  if (dtype == DType::bool_) {
    return make_map<std::uint8_t, std::uint8_t>(request, [](std::uint8_t x) -> std::uint8_t { return x == 0 ? 1 : 0; });
  }
  return with_bits(dtype, [&]<class T>() { return make_map<T, T>(request, [](T x) { return static_cast<T>(~x); }); });
}

std::unique_ptr<Kernel> population_count(const KernelRequest& request) {
  if (!is_integer(request.inputs[0].dtype)) return nullptr;
  return with_bits(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T>(request, [](T x) { return static_cast<T>(std::popcount(x)); });
  });
}

std::unique_ptr<Kernel> clz(const KernelRequest& request) {
  if (!is_integer(request.inputs[0].dtype)) return nullptr;
  return with_bits(request.inputs[0].dtype, [&]<class T>() {
    return make_map<T, T>(request, [](T x) { return static_cast<T>(std::countl_zero(x)); });
  });
}

std::unique_ptr<Kernel> shift_left(const KernelRequest& request) {
  if (!is_integer(request.inputs[0].dtype)) return nullptr;
  return make_bitwise(request, [](auto a, auto amount) { return left(a, amount); });
}

std::unique_ptr<Kernel> shift_right_logical(const KernelRequest& request) {
  if (!is_integer(request.inputs[0].dtype)) return nullptr;
  return make_bitwise(request, [](auto a, auto amount) { return right_logical(a, amount); });
}

std::unique_ptr<Kernel> shift_right_arithmetic(const KernelRequest& request) {
  if (!is_integer(request.inputs[0].dtype)) return nullptr;
  return make_bitwise(request, [](auto a, auto amount) { return right_arithmetic(a, amount); });
}

}  // namespace lockstep::backend::cpu::kernels
