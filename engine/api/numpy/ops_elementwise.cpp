#include <algorithm>
#include <array>
#include <vector>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/numpy/weak_types.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

/// What becomes of integer operands.
enum class Integers {
  kept,      ///< The op takes them.
  floated,   ///< Converted to float, as JAX does.
  identity,  ///< The result is the operand.
};

/// The op's own rule says whether it takes integers; where rounding them is meant, they are as they should be.
Integers integers_of(const ir::Primitive& primitive, std::size_t operands) {
  if (primitive.traits.keeps_integers) return Integers::identity;
  const std::vector<ArrayType> types(operands, ArrayType{int32, {}, {}});
  try {
    ir::infer_types(primitive, types, {}, {});
  } catch (const DtypeError&) {
    return Integers::floated;
  }
  return Integers::kept;
}

Array apply(const ir::Primitive& primitive, Integers integers, std::initializer_list<const Operand*> operands) {
  DType dtype = api::common_dtype(operands);
  if (integers == Integers::floated) dtype = api::inexact(dtype);
  const std::vector<Array> arrays = api::weakly_aligned(primitive.name, operands, dtype);
  if (integers == Integers::identity && !is_inexact(dtype)) return arrays.front();
  const bool has_other = dtype == bool_ && primitive.of_truths != nullptr;
  return std::move(api::bind(has_other ? primitive.of_truths() : primitive, arrays).front());
}

}  // namespace

#define LOCKSTEP_FORM_unary(name)                                             \
  Array name(const Operand& x) {                                              \
    static const Integers integers = integers_of(ops::primitives::name(), 1); \
    return apply(ops::primitives::name(), integers, {&x});                    \
  }
#define LOCKSTEP_FORM_binary(name)                                            \
  Array name(const Operand& a, const Operand& b) {                            \
    static const Integers integers = integers_of(ops::primitives::name(), 2); \
    return apply(ops::primitives::name(), integers, {&a, &b});                \
  }
#define LOCKSTEP_FORM_comparison(name) LOCKSTEP_FORM_binary(name)
#define LOCKSTEP_FORM_ternary(name)                                           \
  Array name(const Operand& a, const Operand& b, const Operand& c) {          \
    static const Integers integers = integers_of(ops::primitives::name(), 3); \
    return apply(ops::primitives::name(), integers, {&a, &b, &c});            \
  }
#define LOCKSTEP_FORM_general(name)
#define LOCKSTEP_OP(name, form) LOCKSTEP_FORM_##form(name)
#include <lockstep/ops.def>
#undef LOCKSTEP_OP
#undef LOCKSTEP_FORM_unary
#undef LOCKSTEP_FORM_binary
#undef LOCKSTEP_FORM_comparison
#undef LOCKSTEP_FORM_ternary
#undef LOCKSTEP_FORM_general

namespace {

using Named = Array (*)(const Operand&, const Operand&);

/// C++ computes with numbers in double: so does a program that does not know them yet, and its results are numbers.
Array applied_to_numbers(const ir::Primitive& primitive, std::initializer_list<const Operand*> operands) {
  const Array result = std::move(api::bind(primitive, api::weakly_aligned(primitive.name, operands, float64)).front());
  return result.dtype() == float64 ? api::visible(result, WeakType::number) : result;
}

Array operated(const ir::Primitive& primitive, Named named, const Operand& a, const Operand& b) {
  return api::are_numbers({&a, &b}) ? applied_to_numbers(primitive, {&a, &b}) : named(a, b);
}

Array divided(const Operand& a, const Operand& b) {
  const DType dtype = api::inexact(api::common_dtype({&a, &b}));
  const ir::Primitive& primitive = ops::primitives::div();
  return std::move(api::bind(primitive, api::weakly_aligned(primitive.name, {&a, &b}, dtype)).front());
}

}  // namespace

Array operator+(const Operand& a, const Operand& b) { return operated(ops::primitives::add(), add, a, b); }
Array operator-(const Operand& a, const Operand& b) { return operated(ops::primitives::sub(), sub, a, b); }
Array operator*(const Operand& a, const Operand& b) { return operated(ops::primitives::mul(), mul, a, b); }
Array operator/(const Operand& a, const Operand& b) { return operated(ops::primitives::div(), divided, a, b); }
Array operator%(const Operand& a, const Operand& b) { return remainder(a, b); }
Array& operator+=(Array& x, const Operand& y) { return x = x + y; }
Array& operator-=(Array& x, const Operand& y) { return x = x - y; }
Array& operator*=(Array& x, const Operand& y) { return x = x * y; }
Array& operator/=(Array& x, const Operand& y) { return x = x / y; }
Array& operator%=(Array& x, const Operand& y) { return x = x % y; }

Array operator-(const Array& x) {
  const Operand operand = x;
  return api::are_numbers({&operand}) ? applied_to_numbers(ops::primitives::neg(), {&operand}) : neg(x);
}

Array operator<(const Operand& a, const Operand& b) { return operated(ops::primitives::less(), less, a, b); }
Array operator<=(const Operand& a, const Operand& b) {
  return operated(ops::primitives::less_equal(), less_equal, a, b);
}
Array operator>(const Operand& a, const Operand& b) { return operated(ops::primitives::greater(), greater, a, b); }
Array operator>=(const Operand& a, const Operand& b) {
  return operated(ops::primitives::greater_equal(), greater_equal, a, b);
}
Array operator==(const Array& a, const Array& b) { return operated(ops::primitives::equal(), equal, a, b); }
Array operator!=(const Array& a, const Array& b) { return operated(ops::primitives::not_equal(), not_equal, a, b); }
Array operator==(const Array& a, const Operand& b) { return operated(ops::primitives::equal(), equal, a, b); }
Array operator!=(const Array& a, const Operand& b) { return operated(ops::primitives::not_equal(), not_equal, a, b); }
Array operator==(const Operand& a, const Array& b) { return operated(ops::primitives::equal(), equal, a, b); }
Array operator!=(const Operand& a, const Array& b) { return operated(ops::primitives::not_equal(), not_equal, a, b); }
Array operator&(const Operand& a, const Operand& b) { return bitwise_and(a, b); }
Array operator|(const Operand& a, const Operand& b) { return bitwise_or(a, b); }
Array operator^(const Operand& a, const Operand& b) { return bitwise_xor(a, b); }
Array operator~(const Array& x) { return bitwise_not(x); }

}  // namespace lockstep
