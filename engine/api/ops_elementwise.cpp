#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/bind.h"
#include "engine/api/operands.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

using api::aligned;
using api::common_dtype;

/// What becomes of integer operands.
enum class Integers {
  kept,      ///< The op takes them.
  floated,   ///< Converted to float, as JAX does.
  identity,  ///< The result is the operand.
};

/// The op's own rule says whether it takes integers; where rounding them is meant, they are as they should be.
Integers integers_of(const ir::Primitive& primitive, std::size_t operands) {
  constexpr std::array<std::string_view, 4> identity = {"ceil", "floor", "round", "stop_gradient"};
  if (std::find(identity.begin(), identity.end(), primitive.name) != identity.end()) return Integers::identity;
  const std::vector<ArrayType> types(operands, ArrayType{int32, {}, {}});
  try {
    ir::infer_types(primitive, types, {}, {});
  } catch (const DtypeError&) {
    return Integers::floated;
  }
  return Integers::kept;
}

/// What sums and products of truth values are, as in jax.numpy.
const ir::Primitive& of_truths(const ir::Primitive& primitive) {
  if (primitive.name == "add") return ops::primitives::bitwise_or();
  if (primitive.name == "mul") return ops::primitives::bitwise_and();
  return primitive;
}

Array apply(const ir::Primitive& primitive, Integers integers, std::initializer_list<const Operand*> operands) {
  DType dtype = common_dtype(operands);
  if (integers == Integers::floated) dtype = api::inexact(dtype);
  const std::vector<Array> arrays = aligned(primitive.name, operands, dtype);
  if (integers == Integers::identity && !is_inexact(dtype)) return arrays.front();
  return std::move(api::bind(dtype == bool_ ? of_truths(primitive) : primitive, arrays).front());
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

Array operator+(const Operand& a, const Operand& b) { return add(a, b); }
Array operator-(const Operand& a, const Operand& b) { return sub(a, b); }
Array operator*(const Operand& a, const Operand& b) { return mul(a, b); }

Array operator/(const Operand& a, const Operand& b) {
  const DType dtype = api::inexact(common_dtype({&a, &b}));
  return std::move(api::bind(ops::primitives::div(), aligned("div", {&a, &b}, dtype)).front());
}

Array operator-(const Array& x) { return neg(x); }
Array operator<(const Operand& a, const Operand& b) { return less(a, b); }
Array operator<=(const Operand& a, const Operand& b) { return less_equal(a, b); }
Array operator>(const Operand& a, const Operand& b) { return greater(a, b); }
Array operator>=(const Operand& a, const Operand& b) { return greater_equal(a, b); }
Array operator==(const Array& a, const Array& b) { return equal(a, b); }
Array operator!=(const Array& a, const Array& b) { return not_equal(a, b); }
Array operator==(const Array& a, const Operand& b) { return equal(a, b); }
Array operator!=(const Array& a, const Operand& b) { return not_equal(a, b); }
Array operator==(const Operand& a, const Array& b) { return equal(a, b); }
Array operator!=(const Operand& a, const Array& b) { return not_equal(a, b); }
Array operator&(const Operand& a, const Operand& b) { return bitwise_and(a, b); }
Array operator|(const Operand& a, const Operand& b) { return bitwise_or(a, b); }
Array operator^(const Operand& a, const Operand& b) { return bitwise_xor(a, b); }
Array operator~(const Array& x) { return bitwise_not(x); }

}  // namespace lockstep
