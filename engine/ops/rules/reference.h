#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/ir/primitive.h"

// Families of references. A reference computes floats as double, signed integers as int64_t, unsigned ones as uint64_t,
// bool as bool, complex as Complex; a family's template arguments are the element types its function takes.
namespace lockstep::ops::reference {

using ir::ReferenceArray;
using ir::ReferenceContext;
using Complex = std::complex<double>;

/// Whether a dtype is computed as T.
template <class T>
bool computes_as(DType dtype) {
  if constexpr (std::is_same_v<T, double>) return is_float(dtype);
  if constexpr (std::is_same_v<T, std::int64_t>) return is_signed_integer(dtype);
  if constexpr (std::is_same_v<T, std::uint64_t>) return is_unsigned_integer(dtype);
  if constexpr (std::is_same_v<T, bool>) return dtype == DType::bool_;
  if constexpr (std::is_same_v<T, Complex>) return is_complex(dtype);
}

/// Element `i` as T, which must be what the array's dtype is computed as.
template <class T>
T load(const ReferenceArray& array, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  if constexpr (std::is_same_v<T, double>) {
    return array.floats()[at];
  } else if constexpr (std::is_same_v<T, Complex>) {
    return array.complexes()[at];
  } else if constexpr (std::is_same_v<T, bool>) {
    return array.integers()[at] != 0;
  } else {
    return static_cast<T>(array.integers()[at]);
  }
}

template <class T>
void store(ReferenceArray& array, std::int64_t i, T element) {
  const auto at = static_cast<std::size_t>(i);
  if constexpr (std::is_same_v<T, double>) {
    array.floats()[at] = element;
  } else if constexpr (std::is_same_v<T, Complex>) {
    array.complexes()[at] = element;
  } else {
    array.integers()[at] = static_cast<std::int64_t>(element);
  }
}

/// Calls `run.template operator()<T>()` for the element type of `dtype`, if it is among Ts.
template <class... Ts, class Run>
void dispatch(DType dtype, Run&& run) {
  ((computes_as<Ts>(dtype) ? (run.template operator()<Ts>(), true) : false) || ...);
}

/// y[i] = f(x[i]).
template <class... Ts, class F>
ir::Reference unary(F f) {
  return [f](const ReferenceContext& context) {
    dispatch<Ts...>(context.inputs[0].type.dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
        store(context.outputs[0], i, f(load<T>(context.inputs[0], i)));
      }
    });
  };
}

/// y[i] = f(a[i], b[i]).
template <class... Ts, class F>
ir::Reference binary(F f) {
  return [f](const ReferenceContext& context) {
    dispatch<Ts...>(context.inputs[0].type.dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
        store(context.outputs[0], i, f(load<T>(context.inputs[0], i), load<T>(context.inputs[1], i)));
      }
    });
  };
}

/// y[i] = f(a[i], b[i], c[i]).
template <class... Ts, class F>
ir::Reference ternary(F f) {
  return [f](const ReferenceContext& context) {
    dispatch<Ts...>(context.inputs[0].type.dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
        store(context.outputs[0], i,
              f(load<T>(context.inputs[0], i), load<T>(context.inputs[1], i), load<T>(context.inputs[2], i)));
      }
    });
  };
}

using Index = std::vector<std::int64_t>;

/// Calls `visit(index)` for every element of `shape` in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Index&)>& visit);
/// Row-major offset of `index`.
std::int64_t offset(const Shape& shape, const Index& index);
/// Result element i is operand element `from[i]`; where that is negative, it stays zero.
void move_elements(const ReferenceArray& from, ReferenceArray& to, const std::vector<std::int64_t>& source);
/// Copies one element between arrays of one kind.
void copy_element(const ReferenceArray& from, std::int64_t i, ReferenceArray& to, std::int64_t j);

/// For ops that only move data: `source(context, index of a result element)` is the offset in operand 0, or -1 for zero.
ir::Reference moves(std::function<std::int64_t(const ReferenceContext&, const Index&)> source);
/// The operand's elements in their order.
ir::Reference copies();

}  // namespace lockstep::ops::reference
