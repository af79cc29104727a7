#include "engine/optim/moments.h"

#include <limits>

#include <lockstep/elementwise.h>

namespace lockstep::optim {

Tree zeros_of(const Tree& params) {
  return map([](const Array& p) { return zeros_like(wide(p)); }, params);
}

Array decaying(const Array& average, Sign sign) {
  if (!is_float(average.dtype())) return average;
  const double smallest_normal = average.dtype() == float64 ? std::numeric_limits<double>::min()
                                                            : static_cast<double>(std::numeric_limits<float>::min());
  return where((sign == Sign::any ? abs(average) : average) < smallest_normal, 0.0, average);
}

Array first_count() { return full({}, 0, int32); }

}  // namespace lockstep::optim
