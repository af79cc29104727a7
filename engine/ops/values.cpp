#include "engine/ops/values.h"

#include <algorithm>

#include "engine/ops/primitives.h"

namespace lockstep::ops {

#define LOCKSTEP_FORM_unary(name) \
  Value name(const Value& x) { return apply_one(primitives::name(), {x}); }
#define LOCKSTEP_FORM_binary(name) \
  Value name(const Value& a, const Value& b) { return apply_one(primitives::name(), {a, b}); }
#define LOCKSTEP_FORM_comparison(name) LOCKSTEP_FORM_binary(name)
#define LOCKSTEP_FORM_ternary(name) \
  Value name(const Value& a, const Value& b, const Value& c) { return apply_one(primitives::name(), {a, b, c}); }
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

Value source(ir::Builder& builder, const ir::Primitive& primitive, Attrs attrs) {
  return {builder, builder.apply(primitive, std::span<const ir::Var>{}, std::move(attrs)).front()};
}

}  // namespace

Dims all_dims(int rank) {
  Dims dims;
  for (int d = 0; d < rank; ++d) dims.push_back(d);
  return dims;
}

Value operator*(const Value& a, double b) { return a * full_like(a, b); }
Value operator*(double a, const Value& b) { return full_like(b, a) * b; }
Value operator+(const Value& a, double b) { return a + full_like(a, b); }
Value operator-(double a, const Value& b) { return full_like(b, a) - b; }

Value full(ir::Builder& builder, DType dtype, const Shape& shape, double value) {
  AttrValue scalar = value;
  if (dtype == DType::bool_) scalar = value != 0;
  if (is_integer(dtype)) scalar = static_cast<std::int64_t>(value);
  return source(builder, primitives::full(), {{"dtype", dtype}, {"shape", shape.to_vector()}, {"value", scalar}});
}

Value full_like(const Value& like, double value) { return full(like.builder(), like.dtype(), like.shape(), value); }

Value zeros(ir::Builder& builder, const ArrayType& type) { return full(builder, type.dtype, type.shape, 0); }

Value iota(ir::Builder& builder, DType dtype, const Shape& shape, int dim) {
  return source(builder, primitives::iota(),
                {{"dtype", dtype}, {"shape", shape.to_vector()}, {"dim", static_cast<std::int64_t>(dim)}});
}

Value select(const Value& predicate, const Value& on_true, const Value& on_false) {
  return apply_one(primitives::select(), {predicate, on_true, on_false});
}

Value convert(const Value& x, DType dtype) {
  return x.dtype() == dtype ? x : apply_one(primitives::convert(), {x}, {{"dtype", dtype}});
}

Value complex(const Value& re, const Value& im) { return apply_one(primitives::complex(), {re, im}); }
Value real(const Value& x) { return apply_one(primitives::real(), {x}); }
Value imag(const Value& x) { return apply_one(primitives::imag(), {x}); }
Value conj(const Value& x) { return apply_one(primitives::conj(), {x}); }

Value reshape(const Value& x, const Shape& shape) {
  return x.shape() == shape ? x : apply_one(primitives::reshape(), {x}, {{"shape", shape.to_vector()}});
}

Value transpose(const Value& x, const Dims& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  return apply_one(primitives::transpose(), {x}, {{"permutation", permutation}});
}

Value broadcast_in_dim(const Value& x, const Shape& shape, const Dims& dims) {
  if (x.shape() == shape && std::is_sorted(dims.begin(), dims.end())) return x;
  return apply_one(primitives::broadcast_in_dim(), {x}, {{"shape", shape.to_vector()}, {"dims", dims}});
}

Value broadcast_reduced(const Value& x, const Shape& shape, const Dims& axes) {
  Dims kept;
  for (std::int64_t dim = 0; dim < shape.rank(); ++dim) {
    if (std::find(axes.begin(), axes.end(), dim) == axes.end()) kept.push_back(dim);
  }
  return broadcast_in_dim(x, shape, kept);
}

Value broadcast_leading(const Value& x, std::int64_t size) {
  return broadcast_reduced(x, x.shape().insert(0, size), {0});
}

Value slice(const Value& x, const Dims& start, const Dims& limit, const Dims& strides) {
  return apply_one(primitives::slice(), {x}, {{"start", start}, {"limit", limit}, {"strides", strides}});
}

Value pad(const Value& x, double value, const Dims& low, const Dims& high, const Dims& interior) {
  return apply_one(primitives::pad(), {x, full(x.builder(), x.dtype(), Shape{}, value)},
                   {{"low", low}, {"high", high}, {"interior", interior}});
}

Value concatenate(std::span<const Value> xs, int dim) {
  return apply(primitives::concatenate(), xs, {{"dim", static_cast<std::int64_t>(dim)}}).front();
}

Value reduce_sum(const Value& x, const Dims& axes) {
  return axes.empty() ? x : apply_one(primitives::reduce_sum(), {x}, {{"axes", axes}});
}

Value pvary(const Value& x, const AxisSet& axes) { return {x.builder(), x.builder().pvary(x.var(), axes)}; }

Value psum(const Value& x, const AxisSet& axes) {
  return axes.empty() ? x : apply_one(primitives::psum(), {x}, {{"axes", axes.names()}});
}

std::vector<Value> apply(const ir::Primitive& primitive, std::span<const Value> inputs, Attrs attrs) {
  ir::Builder& builder = inputs.front().builder();
  std::vector<ir::Var> operands;
  operands.reserve(inputs.size());
  for (const Value& input : inputs) operands.push_back(input.var());
  std::vector<Value> results;
  for (const ir::Var var : builder.apply(primitive, operands, std::move(attrs))) results.emplace_back(builder, var);
  return results;
}

Value apply_one(const ir::Primitive& primitive, std::initializer_list<Value> inputs, Attrs attrs) {
  return apply(primitive, std::span<const Value>(inputs.begin(), inputs.size()), std::move(attrs)).front();
}

}  // namespace lockstep::ops
