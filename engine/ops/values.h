#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "engine/ir/value.h"

namespace lockstep::ops {

using ir::Value;

// The ops on IR values, for derivative and batching rules. Nothing is promoted or broadcast: shapes and dtypes must be
// equal (varying is joined by the builder). Names and meaning are those of ops.def.
#define LOCKSTEP_FORM_unary(name) Value name(const Value& x);
#define LOCKSTEP_FORM_binary(name) Value name(const Value& a, const Value& b);
#define LOCKSTEP_FORM_comparison(name) Value name(const Value& a, const Value& b);
#define LOCKSTEP_FORM_ternary(name) Value name(const Value& a, const Value& b, const Value& c);
#define LOCKSTEP_FORM_general(name)
#define LOCKSTEP_OP(name, form) LOCKSTEP_FORM_##form(name)
#include <lockstep/ops.def>
#undef LOCKSTEP_OP
#undef LOCKSTEP_FORM_unary
#undef LOCKSTEP_FORM_binary
#undef LOCKSTEP_FORM_comparison
#undef LOCKSTEP_FORM_ternary
#undef LOCKSTEP_FORM_general

inline Value operator+(const Value& a, const Value& b) { return add(a, b); }
inline Value operator-(const Value& a, const Value& b) { return sub(a, b); }
inline Value operator*(const Value& a, const Value& b) { return mul(a, b); }
inline Value operator/(const Value& a, const Value& b) { return div(a, b); }
inline Value operator-(const Value& a) { return neg(a); }
/// A constant of the other operand's type.
Value operator*(const Value& a, double b);
Value operator*(double a, const Value& b);
Value operator+(const Value& a, double b);
Value operator-(double a, const Value& b);

using Dims = std::vector<std::int64_t>;
/// 0, 1, ..., rank - 1.
Dims all_dims(int rank);

Value full(ir::Builder& builder, DType dtype, const Shape& shape, double value);
Value full_like(const Value& like, double value);
Value zeros(ir::Builder& builder, const ArrayType& type);  ///< Invariant zeros of type's dtype and shape.
Value iota(ir::Builder& builder, DType dtype, const Shape& shape, int dim);
Value select(const Value& predicate, const Value& on_true, const Value& on_false);
Value convert(const Value& x, DType dtype);
Value complex(const Value& re, const Value& im);
Value real(const Value& x);
Value imag(const Value& x);
Value conj(const Value& x);
Value reshape(const Value& x, const Shape& shape);
Value transpose(const Value& x, const Dims& permutation);
Value broadcast_in_dim(const Value& x, const Shape& shape, const Dims& dims);
/// `x` without the axes that were reduced from `shape`, broadcast back to it.
Value broadcast_reduced(const Value& x, const Shape& shape, const Dims& axes);
/// A new leading dimension of extent `size`.
Value broadcast_leading(const Value& x, std::int64_t size);
Value slice(const Value& x, const Dims& start, const Dims& limit, const Dims& strides);
Value pad(const Value& x, double value, const Dims& low, const Dims& high, const Dims& interior);
Value concatenate(std::span<const Value> xs, int dim);
Value reduce_sum(const Value& x, const Dims& axes);
Value pvary(const Value& x, const AxisSet& axes);
Value psum(const Value& x, const AxisSet& axes);
/// Any other primitive.
std::vector<Value> apply(const ir::Primitive& primitive, std::span<const Value> inputs, Attrs attrs = {});
Value apply_one(const ir::Primitive& primitive, std::initializer_list<Value> inputs, Attrs attrs = {});

}  // namespace lockstep::ops
