#pragma once

#include <cstdint>

#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

inline void add_each_float(const float* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
}

/// to[i] += from[i].
inline void add_floats(const float* from, std::int64_t n, float* to) {
  static const auto widest = VectorVariants<add_each_float>::chosen();
  widest(from, n, to);
}

}  // namespace lockstep::backend::cpu
