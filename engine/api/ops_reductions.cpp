#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/bind.h"
#include "engine/api/operands.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

/// Sorted, non-negative, without repetition; all of them where none are named.
Axes resolve(const std::optional<Axes>& axes, int rank, std::string_view op) {
  Axes resolved;
  if (!axes) {
    for (int i = 0; i < rank; ++i) resolved.push_back(i);
    return resolved;
  }
  for (const std::int64_t axis : *axes) resolved.push_back(normalize_axis(axis, rank, op));
  std::sort(resolved.begin(), resolved.end());
  if (std::adjacent_find(resolved.begin(), resolved.end()) != resolved.end()) {
    throw ShapeError(fmt::format("{}: axes [{}] name a dimension twice", op, fmt::join(*axes, ",")));
  }
  return resolved;
}

Array reduce(const ir::Primitive& primitive, const Array& x, const Axes& axes, bool keep) {
  const Array result = axes.empty() ? x : api::bind_one(primitive, {x}, {{"axes", axes}});
  if (!keep) return result;
  Shape shape = x.shape();
  for (const std::int64_t axis : axes) shape = shape.with(static_cast<int>(axis), 1);
  return reshape(result, shape.to_vector());
}

/// What sums and products are taken in: narrow integers and bool grow to 32 bits.
DType accumulated(DType dtype) {
  if (dtype == DType::bool_ || dtype == DType::int8 || dtype == DType::int16) return DType::int32;
  if (dtype == DType::uint8 || dtype == DType::uint16) return DType::uint32;
  return dtype;
}

/// What means are taken in: at least float32.
DType widened(DType dtype) {
  const DType real = api::inexact(dtype);
  return real == DType::float16 || real == DType::bfloat16 ? DType::float32 : real;
}

std::int64_t count(const Array& x, const Axes& axes) {
  std::int64_t n = 1;
  for (const std::int64_t axis : axes) n *= x.shape()[static_cast<int>(axis)];
  return n;
}

Array truth(const Array& x) { return x.dtype() == DType::bool_ ? x : not_equal(x, 0); }

Array argument_of(const ir::Primitive& primitive, const Array& x, std::int64_t axis, DType dtype) {
  const std::int64_t dim = normalize_axis(axis, x.ndim(), primitive.name);
  return api::bind_one(primitive, {x}, {{"axis", dim}, {"dtype", dtype}});
}

}  // namespace

Array sum(const Array& x, const std::optional<Axes>& axes, bool keep) {
  return reduce(ops::primitives::reduce_sum(), convert(x, accumulated(x.dtype())), resolve(axes, x.ndim(), "sum"),
                keep);
}

Array prod(const Array& x, const std::optional<Axes>& axes, bool keep) {
  return reduce(ops::primitives::reduce_prod(), convert(x, accumulated(x.dtype())), resolve(axes, x.ndim(), "prod"),
                keep);
}

Array max(const Array& x, const std::optional<Axes>& axes, bool keep) {
  return reduce(ops::primitives::reduce_max(), x, resolve(axes, x.ndim(), "max"), keep);
}

Array min(const Array& x, const std::optional<Axes>& axes, bool keep) {
  return reduce(ops::primitives::reduce_min(), x, resolve(axes, x.ndim(), "min"), keep);
}

Array mean(const Array& x, const std::optional<Axes>& axes, bool keep) {
  const Axes dims = resolve(axes, x.ndim(), "mean");
  const Array wide = convert(x, widened(x.dtype()));
  const Array total = reduce(ops::primitives::reduce_sum(), wide, dims, keep);
  return convert(div(total, static_cast<double>(count(x, dims))), api::inexact(x.dtype()));
}

Array var(const Array& x, const std::optional<Axes>& axes, bool keep) {
  const Axes dims = resolve(axes, x.ndim(), "var");
  const Array wide = convert(x, widened(x.dtype()));
  const Array centered = sub(wide, mean(wide, dims, true));
  return convert(mean(square(centered), dims, keep), api::inexact(x.dtype()));
}

Array all(const Array& x, const std::optional<Axes>& axes, bool keep) {
  return reduce(ops::primitives::reduce_min(), truth(x), resolve(axes, x.ndim(), "all"), keep);
}

Array any(const Array& x, const std::optional<Axes>& axes, bool keep) {
  return reduce(ops::primitives::reduce_max(), truth(x), resolve(axes, x.ndim(), "any"), keep);
}

Array logsumexp(const Array& x, const std::optional<Axes>& axes, bool keep) {
  const Axes dims = resolve(axes, x.ndim(), "logsumexp");
  const Array value = convert(x, api::inexact(x.dtype()));
  const Array top = stop_gradient(max(value, dims, true));
  const Array shift = where(is_finite(top), top, 0);
  const Array result = add(log(sum(exp(sub(value, shift)), dims, true)), shift);
  return keep ? result : squeeze(result, dims);
}

Array argmax(const Array& x, std::int64_t axis, DType dtype) {
  return argument_of(ops::primitives::argmax(), x, axis, dtype);
}

Array argmin(const Array& x, std::int64_t axis, DType dtype) {
  return argument_of(ops::primitives::argmin(), x, axis, dtype);
}

std::pair<Array, Array> top_k(const Array& x, std::int64_t k) {
  std::vector<Array> results = api::bind(ops::primitives::top_k(), std::span(&x, 1), {{"k", k}});
  return {std::move(results[0]), std::move(results[1])};
}

}  // namespace lockstep
