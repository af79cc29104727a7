#include <limits>

#include <fmt/format.h>

#include <lockstep/attention.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/operands.h"

namespace lockstep {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Shifted {
  Array mask, x;  ///< x less its largest element, 0 where the mask does not hold.
  Array total;    ///< The sum of its exponentials, 1 where nothing is summed.
};

Shifted shifted(std::string_view op, const Array& x, std::int64_t axis, const Array& mask) {
  if (mask.dtype() != bool_) {
    throw DtypeError(fmt::format("{}: the mask must be of bool, got {}", op, to_string(mask.type())));
  }
  const Array value = convert(x, api::inexact(x.dtype()));
  const Array wide = api::broadcast(op, mask, x.shape());
  const Array largest = max(where(wide, stop_gradient(value), -infinity), Axes{axis}, true);
  const Array less = where(wide, value - where(is_finite(largest), largest, 0), 0);
  const Array total = sum(where(wide, exp(less), 0), Axes{axis}, true);
  return {wide, less, where(any(wide, Axes{axis}, true), total, 1)};
}

}  // namespace

Array softmax(const Array& x, std::int64_t axis, const Array& mask) {
  const Shifted s = shifted("softmax", x, axis, mask);
  return where(s.mask, exp(s.x) / s.total, 0);
}

Array log_softmax(const Array& x, std::int64_t axis, const Array& mask) {
  const Shifted s = shifted("log_softmax", x, axis, mask);
  return where(s.mask, s.x - log(s.total), -infinity);
}

}  // namespace lockstep
