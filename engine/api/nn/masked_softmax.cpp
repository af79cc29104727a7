
#include <fmt/format.h>

#include <lockstep/attention.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"

namespace lockstep {

namespace {

struct ShiftedWhere {
  Array mask, x;  ///< x less its largest element, 0 where the mask does not hold.
  Array count;    ///< How many elements are the largest; 1 where nothing is summed.
  Array others;   ///< The sum of the exponentials of all others.
};

ShiftedWhere shifted_where(std::string_view op, const Array& x, std::int64_t axis, const Array& mask) {
  if (mask.dtype() != bool_) {
    throw DtypeError(fmt::format("{}: the mask must be of bool, got {}", op, to_string(mask.type())));
  }
  axis = normalize_axis(axis, x.ndim(), op);
  const Array value = convert(x, api::widened(x.dtype()));
  const Array wide = api::broadcast(op, mask, x.shape());
  // Its derivative goes through the largest element, as the one without a mask.
  const Array largest = api::largest(where(wide, value, -api::infinity), {axis}, true);
  const Array less = where(wide, value - where(is_finite(largest), largest, 0), 0);
  const Array top = convert(logical_and(wide, equal(less, 0)), value.dtype());
  const Array others = sum(where(wide, exp(less) - top, 0), Axes{axis}, true);
  const Array count = sum(top, Axes{axis}, true);
  return {wide, less, where(any(wide, Axes{axis}, true), count, 1), others};
}

}  // namespace

Array softmax(const ArrayOperand& x, std::int64_t axis, const ArrayOperand& mask) {
  const ShiftedWhere s = shifted_where("softmax", x, axis, mask);
  return convert(where(s.mask, exp(s.x) / (s.count + s.others), 0), api::inexact(x.dtype()));
}

Array log_softmax(const ArrayOperand& x, std::int64_t axis, const ArrayOperand& mask) {
  const ShiftedWhere s = shifted_where("log_softmax", x, axis, mask);
  const Array none = equal(s.count, 0);
  const Array count = where(none, 1, s.count);
  const Array total = where(none, 0, log(count)) + log1p(s.others / count);
  return convert(where(s.mask, s.x - total, -api::infinity), api::inexact(x.dtype()));
}

}  // namespace lockstep
