#pragma once

#include <cstdint>

namespace lockstep::benches {

/// What bench_fusion's chain computes, as a loop in C++.
void fusion_loop(const float* x, float* y, std::int64_t n);

}  // namespace lockstep::benches
