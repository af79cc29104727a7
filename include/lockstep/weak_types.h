#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>

// Arrays of weak type, as JAX has them: what a C++ number is where a program does not know its value yet. A number that
// is given to a transformed function for an Array (see jit) is one. Where it meets an array it takes that array's dtype
// wherever it can hold its kind, rounded once, as a literal in its place would: with a bfloat16 array it is bfloat16, a
// real one with an int32 array gives float32. Weak values alone are bool, int32 (int64 where the value needs it) or
// float32, and what is computed of them alone is weak, too; of reals, the operators + - * / and comparisons compute in
// float64, as C++ does of double. convert and astype end it; what a loop carries has the default dtype, or the one its
// body returns.
namespace lockstep {

/// A rank-0 array of weak type: what holds a number in a struct of arrays without giving it a dtype. A double has its
/// default dtype, float32, to who asks; formulas use all of its digits. Throws ValueError for an integer from 2^63 on.
LOCKSTEP_API Array weak_scalar(const Operand& value);
/// Whether the array gives way to the dtypes of others. (jax.Array.weak_type)
LOCKSTEP_API bool is_weak_type(const Array& x);

namespace detail {

/// A number as an argument of a function.
LOCKSTEP_API Array number(double value);
LOCKSTEP_API Array number(std::int64_t value);  ///< int32, or int64 where the value needs it.
/// Likewise. Throws ValueError from 2^63 on.
LOCKSTEP_API Array number(std::uint64_t value);
LOCKSTEP_API Array number(bool value);  ///< bool, as weak.

/// What a value of the type is where its numbers are arrays; the type itself where it has none.
template <class T>
struct TracedForm {
  using Type = T;
};
template <class T>
requires std::is_arithmetic_v<T>
struct TracedForm<T> {
  using Type = Array;
  static Array of(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return number(value);
    } else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>) {
      return number(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      return number(static_cast<std::int64_t>(value));
    } else {
      return number(static_cast<double>(value));
    }
  }
};

template <class T>
using Traced = typename TracedForm<T>::Type;
/// Whether a value of the type holds numbers that may be arrays.
template <class T>
inline constexpr bool holds_numbers = !std::is_same_v<Traced<T>, T>;

template <class T>
Traced<T> traced_form(const T& value) {
  if constexpr (holds_numbers<T>) {
    return TracedForm<T>::of(value);
  } else {
    return value;
  }
}

template <class T>
struct TracedForm<std::vector<T>> {
  using Type = std::vector<Traced<T>>;
  static Type of(const std::vector<T>& values) {
    Type traced;
    for (const T& value : values) traced.push_back(traced_form(value));
    return traced;
  }
};
template <class T, class Less, class Allocator>
requires holds_numbers<T>
struct TracedForm<std::map<std::string, T, Less, Allocator>> {
  using Type = std::map<std::string, Traced<T>>;
  static Type of(const std::map<std::string, T, Less, Allocator>& values) {
    Type traced;
    for (const auto& [key, value] : values) traced.emplace(key, traced_form(value));
    return traced;
  }
};
template <class T>
struct TracedForm<std::optional<T>> {
  using Type = std::optional<Traced<T>>;
  static Type of(const std::optional<T>& value) { return value ? Type(traced_form(*value)) : Type(); }
};
template <class... Ts>
struct TracedForm<std::tuple<Ts...>> {
  using Type = std::tuple<Traced<Ts>...>;
  static Type of(const std::tuple<Ts...>& values) {
    return std::apply([](const Ts&... items) { return Type(traced_form(items)...); }, values);
  }
};
template <class A, class B>
struct TracedForm<std::pair<A, B>> {
  using Type = std::pair<Traced<A>, Traced<B>>;
  static Type of(const std::pair<A, B>& values) { return {traced_form(values.first), traced_form(values.second)}; }
};

}  // namespace detail
}  // namespace lockstep
