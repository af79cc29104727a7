#pragma once

#include <lockstep/backend/isa.h>

namespace lockstep::backend::cpu {

/// A function that holds plain loops, compiled once for each level of vector instructions. Loops whose iterations do
/// not depend on each other have the same bits in all of them: nothing is contracted.
template <auto function>
struct VectorVariants;

template <class... Arguments, void (*function)(Arguments...)>
struct VectorVariants<function> {
  using Pointer = void (*)(Arguments...);

  /// The one for what `usable_isa()` says.
  static Pointer chosen() {
#if defined(__x86_64__)
    const Isa isa = usable_isa();
    if (isa == Isa::avx512) return avx512;
    if (isa == Isa::avx2) return avx2;
#endif
    return function;
  }

#if defined(__x86_64__)
 private:
  // Flattened: what is called inside is compiled for these instructions only where it is inlined.
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512"), gnu::flatten]] static void avx512(
      Arguments... arguments) {
    function(arguments...);
  }
  [[gnu::target("avx2,fma"), gnu::flatten]] static void avx2(Arguments... arguments) { function(arguments...); }
#endif
};

}  // namespace lockstep::backend::cpu
