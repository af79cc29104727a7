#include <lockstep/elementwise.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/infer.h"

namespace lockstep {

namespace {

Array as_truths(const Array& x) { return x.dtype() == DType::bool_ ? x : not_equal(x, 0); }

Array argument_of(const ir::Primitive& primitive, const Array& x, std::int64_t axis, DType dtype) {
  const std::int64_t dim = normalize_axis(axis, x.ndim(), primitive.name);
  return api::bind_one(primitive, {x}, {{"axis", dim}, {"dtype", dtype}});
}

}  // namespace

Array sum(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return api::reduce(ops::primitives::reduce_sum(), convert(x, api::accumulated(x.dtype())),
                     api::resolve_axes(axes, x.ndim(), "sum"), keep);
}

Array prod(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return api::reduce(ops::primitives::reduce_prod(), convert(x, api::accumulated(x.dtype())),
                     api::resolve_axes(axes, x.ndim(), "prod"), keep);
}

Array max(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), "max");
  api::expect_elements("max", x, dims);
  return api::largest(x, dims, keep);
}

Array min(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), "min");
  api::expect_elements("min", x, dims);
  return api::smallest(x, dims, keep);
}

Array mean(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), "mean");
  const Array wide = convert(x, api::widened(x.dtype()));
  const Array total = api::reduce(ops::primitives::reduce_sum(), wide, dims, keep);
  return convert(div(total, static_cast<double>(api::count_along(x, dims))), api::inexact(x.dtype()));
}

Array var(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), "var");
  const Array wide = convert(x, api::widened(x.dtype()));
  const Array centered = api::centered(wide, dims);
  const DType dtype = ops::infer::part_of(api::inexact(x.dtype()));
  return convert(mean(real(mul(centered, conj(centered))), dims, keep), dtype);
}

Array all(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return api::reduce(ops::primitives::reduce_min(), as_truths(x), api::resolve_axes(axes, x.ndim(), "all"), keep);
}

Array any(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return api::reduce(ops::primitives::reduce_max(), as_truths(x), api::resolve_axes(axes, x.ndim(), "any"), keep);
}

Array logsumexp(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  const Axes dims = api::resolve_axes(axes, x.ndim(), "logsumexp");
  const DType dtype = api::inexact(x.dtype());
  const Array value = convert(x, api::widened(dtype));
  const Array top = stop_gradient(api::largest(value, dims, true));
  const Array shift = where(is_finite(top), top, 0);
  if (api::count_along(x, dims) == 0) return keep ? convert(top, dtype) : squeeze(convert(top, dtype), dims);
  // The largest ones are counted, the others summed by themselves: beside a large one they may be all that is not 0.
  const Array largest = convert(equal(value, top), value.dtype());
  const Array count = sum(largest, dims, true);
  const Array others = sum(sub(exp(sub(value, shift)), largest), dims, true);
  const Array total = add(log(count), log1p(div(others, count)));
  const Array result = convert(add(total, shift), dtype);
  return keep ? result : squeeze(result, dims);
}

Array reduce_and(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return api::reduce(ops::primitives::reduce_and(), x, api::resolve_axes(axes, x.ndim(), __func__), keep);
}

Array reduce_or(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return api::reduce(ops::primitives::reduce_or(), x, api::resolve_axes(axes, x.ndim(), __func__), keep);
}

Array reduce_xor(const ArrayOperand& x, const OptionalAxes& axes, bool keep) {
  return api::reduce(ops::primitives::reduce_xor(), x, api::resolve_axes(axes, x.ndim(), __func__), keep);
}

Array argmax(const ArrayOperand& x, std::int64_t axis, DType dtype) {
  return argument_of(ops::primitives::argmax(), x, axis, dtype);
}

Array argmin(const ArrayOperand& x, std::int64_t axis, DType dtype) {
  return argument_of(ops::primitives::argmin(), x, axis, dtype);
}

std::pair<Array, Array> top_k(const ArrayOperand& x, std::int64_t k) {
  std::vector<Array> results =
      api::bind(ops::primitives::top_k(), std::span(static_cast<const Array*>(&x), 1), {{"k", k}});
  return {std::move(results[0]), std::move(results[1])};
}

}  // namespace lockstep
