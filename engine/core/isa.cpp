#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include <lockstep/error.h>
#include <lockstep/isa.h>

namespace lockstep {
namespace {

constexpr std::array<Isa, 3> levels = {Isa::none, Isa::avx2, Isa::avx512};

Isa machine_isa() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx2 && avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::none;
#else
  return Isa::none;
#endif
}

}  // namespace

std::string_view name(Isa isa) {
  constexpr std::array<std::string_view, 3> names = {"none", "avx2", "avx512"};
  return names[static_cast<std::size_t>(isa)];
}

Isa max_isa() {
  const char* value = std::getenv("LOCKSTEP_MAX_ISA");
  if (value == nullptr || *value == '\0') return Isa::avx512;
  for (const Isa isa : levels) {
    if (name(isa) == value) return isa;
  }
  throw BackendError(
      "LOCKSTEP_MAX_ISA=" + std::string(value) +
      " is no set of instructions; expected avx512, avx2 or none. Unset it to use all the processor has.");
}

Isa usable_isa() { return std::min(max_isa(), machine_isa()); }

}  // namespace lockstep
