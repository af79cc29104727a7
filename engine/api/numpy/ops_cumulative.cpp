#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/reductions.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/cumulative/direction.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

Array accumulate(const ir::Primitive& primitive, const Array& x, std::int64_t axis, bool reverse) {
  const std::int64_t dim = normalize_axis(axis, x.ndim(), primitive.name);
  return api::bind_one(primitive, {x}, ops::Direction(dim, reverse).attrs());
}

Array counted(const Array& x) { return x.dtype() == DType::bool_ ? convert(x, int32) : x; }

/// Elements [start, start + count) along the axis.
Array elements_along(const Array& x, std::int64_t axis, std::int64_t start, std::int64_t count) {
  return slice_in_dim(x, start, start + count, axis);
}

}  // namespace

Array cumsum(const ArrayOperand& x, std::int64_t axis, bool reverse) {
  return accumulate(ops::primitives::cumsum(), counted(x), axis, reverse);
}
Array cumprod(const ArrayOperand& x, std::int64_t axis, bool reverse) {
  return accumulate(ops::primitives::cumprod(), counted(x), axis, reverse);
}
Array cummax(const ArrayOperand& x, std::int64_t axis, bool reverse) {
  return accumulate(ops::primitives::cummax(), x, axis, reverse);
}
Array cummin(const ArrayOperand& x, std::int64_t axis, bool reverse) {
  return accumulate(ops::primitives::cummin(), x, axis, reverse);
}
Array cumlogsumexp(const ArrayOperand& x, std::int64_t axis, bool reverse) {
  return accumulate(ops::primitives::cumlogsumexp(), convert(x, api::inexact(x.dtype())), axis, reverse);
}

Array nancumsum(const ArrayOperand& x, std::int64_t axis) { return cumsum(where(isnan(x), zeros_like(x), x), axis); }
Array nancumprod(const ArrayOperand& x, std::int64_t axis) { return cumprod(where(isnan(x), ones_like(x), x), axis); }

Array linear_recurrence(const ArrayOperand& a, const ArrayOperand& b, std::int64_t axis, bool reverse) {
  const Operand left = counted(a), right = counted(b);
  const DType dtype = api::common_dtype({&left, &right});
  const std::vector<Array> arrays = api::aligned(__func__, {&left, &right}, dtype);
  const std::int64_t dim = normalize_axis(axis, arrays[0].ndim(), __func__);
  return std::move(
      api::bind(ops::primitives::linear_recurrence(), arrays, ops::Direction(dim, reverse).attrs()).front());
}

Array diff(const ArrayOperand& x, std::int64_t n, std::int64_t axis) {
  if (n < 0) throw ValueError(fmt::format("diff: n is {}; expected 0 or more", n));
  const std::int64_t dim = normalize_axis(axis, x.ndim(), "diff");
  Array result = x;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t extent = result.dim(static_cast<int>(dim));
    if (extent == 0) break;
    const Array next = elements_along(result, dim, 1, extent - 1), before = elements_along(result, dim, 0, extent - 1);
    result = x.dtype() == DType::bool_ ? not_equal(next, before) : sub(next, before);
  }
  return result;
}

Array ediff1d(const ArrayOperand& x) {
  if (x.dtype() == bool_) {
    throw DtypeError(
        fmt::format("ediff1d: x is {}; bools have no differences, convert(x, int32) has (diff of bools says "
                    "which neighbours differ)",
                    to_string(x.type())));
  }
  return diff(reshape(x, {-1}));
}

Array gradient(const ArrayOperand& x, std::int64_t axis, double spacing) {
  const std::int64_t dim = normalize_axis(axis, x.ndim(), "gradient");
  const std::int64_t extent = x.dim(static_cast<int>(dim));
  if (extent < 2) {
    throw ShapeError(fmt::format("gradient: {} has extent {} along axis {}; expected at least 2 points",
                                 to_string(x.shape()), extent, dim));
  }
  const DType dtype = api::inexact(x.dtype());
  const Array value = convert(x, api::widened(dtype));
  const Array steps = div(diff(value, 1, dim), spacing);
  const Array inner =
      mul(add(elements_along(steps, dim, 0, extent - 2), elements_along(steps, dim, 1, extent - 2)), 0.5);
  return convert(concatenate({elements_along(steps, dim, 0, 1), inner, elements_along(steps, dim, extent - 2, 1)}, dim),
                 dtype);
}

}  // namespace lockstep
