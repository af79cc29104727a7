#include "backends/cpu/products/bfloat16_arrays.h"

#include "backends/cpu/bfloat16.h"
#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

namespace {

void widen_elements(const std::uint16_t* from, std::int64_t n, std::uint32_t* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<std::uint32_t>(from[i]) << 16;
}

void narrow_elements(const std::uint32_t* from, std::int64_t n, std::uint16_t* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = rounded_to_bfloat16(from[i]);
}

}  // namespace

void widen(const void* from, std::int64_t n, void* to) {
  static const auto widest = VectorVariants<widen_elements>::chosen();
  widest(static_cast<const std::uint16_t*>(from), n, static_cast<std::uint32_t*>(to));
}

void narrow(const void* from, std::int64_t n, void* to) {
  static const auto widest = VectorVariants<narrow_elements>::chosen();
  widest(static_cast<const std::uint32_t*>(from), n, static_cast<std::uint16_t*>(to));
}

}  // namespace lockstep::backend::cpu
