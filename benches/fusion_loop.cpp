#include "benches/fusion_loop.h"

#include <cmath>

namespace lockstep::benches {

void fusion_loop(const float* x, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float a = (x[i] * 1.5F + 0.25F) * x[i] - 0.5F;
    y[i] = std::sqrt((a > 0.0F ? a : 0.0F) + 1.0F) * 2.0F;
  }
}

}  // namespace lockstep::benches
