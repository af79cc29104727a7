#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/export.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/operands.h"
#include "engine/ir/primitive.h"

// What the reductions share.
namespace lockstep::api {

/// Sorted, non-negative, without repetition; all of them where none are named. Throws ShapeError naming `op`.
LOCKSTEP_API Axes resolve_axes(const OptionalAxes& axes, int rank, std::string_view op);
/// A primitive with the attribute `axes`; with `keep`, these have extent 1.
Array reduce(const ir::Primitive& primitive, const Array& x, const Axes& axes, bool keep);
/// The largest and the smallest elements; the dtype's ends where there are none, which `max` and `min` refuse.
LOCKSTEP_API Array largest(const Array& x, const Axes& axes, bool keep);
LOCKSTEP_API Array smallest(const Array& x, const Axes& axes, bool keep);
/// Throws ShapeError naming `op` where a result would be made of no element.
void expect_elements(std::string_view op, const Array& x, const Axes& axes);
/// What sums and products are taken in: narrow integers and bool grow to 32 bits.
DType accumulated(DType dtype);
/// What means are taken in: at least float32.
LOCKSTEP_API DType widened(DType dtype);
/// `x` in that dtype.
LOCKSTEP_API Array as_widened(const Array& x);
/// f(x) with x in that dtype, rounded once to x's own, to a float where that is none.
template <class F>
Array in_widened(const Array& x, F f) {
  return convert(f(as_widened(x)), inexact(x.dtype()));
}
/// Elements less their mean, float32 or wider. No sum overflows where the mean does not, and what the mean has lost by
/// rounding is taken off too: exactly 0 where all elements are equal.
LOCKSTEP_API Array centered(const Array& x, const Axes& axes);
/// The root of a variance. Where that is 0 it has no derivative, which is taken as 0.
Array deviation(const Array& variance);
/// The largest power of two up to the largest of these magnitudes, float32 or float64; 1 where that is 0 or no number.
/// Divided by it, no power overflows or vanishes where its root does not, and nothing is rounded. Constant to derivatives.
Array binade(const Array& magnitudes, const Axes& axes);
/// The number of elements that one result is made of.
std::int64_t count_along(const Array& x, const Axes& axes);

}  // namespace lockstep::api
