#pragma once

#include <cstdint>

namespace lockstep::backend::cpu {

/// n bfloat16 as float32.
void widen(const void* from, std::int64_t n, void* to);
/// n float32 rounded to bfloat16, as bfloat16.h says.
void narrow(const void* from, std::int64_t n, void* to);

}  // namespace lockstep::backend::cpu
