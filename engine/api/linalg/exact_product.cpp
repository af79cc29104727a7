#include "engine/api/linalg/exact_product.h"

#include <lockstep/elementwise.h>
#include <lockstep/ops.h>

namespace lockstep::api {

Product exact_product(const Array& x, long double constant) {
  const double near = x.dtype() == DType::float64 ? static_cast<double>(constant) : static_cast<float>(constant);
  const auto left = static_cast<double>(constant - static_cast<long double>(near));
  const Array high = mul(x, near);
  const Array ordinary = where(is_finite(high), x, 0);
  const Array rounded = fma(ordinary, near, neg(mul(ordinary, near)));
  return {high, add(rounded, mul(ordinary, left))};
}

}  // namespace lockstep::api
