#if defined(__AVX512F__)

#include <cstdint>

#include <immintrin.h>

#include "backends/cpu/triangular/triangular_loops.h"
#include "backends/cpu/triangular/vector_lanes.h"

namespace lockstep::backend::cpu {

namespace {

struct Floats : VectorLanes<Floats, float, 64> {
  static constexpr std::int64_t most_vectors = 4;
  static Floats all(float x) { return {{_mm512_set1_ps(x)}}; }
  static Floats without_product(Floats sum, Floats a, Floats b) {
    return {{_mm512_fnmadd_ps(a.values, b.values, sum.values)}};
  }
};

struct Doubles : VectorLanes<Doubles, double, 64> {
  static constexpr std::int64_t most_vectors = 4;
  static Doubles all(double x) { return {{_mm512_set1_pd(x)}}; }
  static Doubles without_product(Doubles sum, Doubles a, Doubles b) {
    return {{_mm512_fnmadd_pd(a.values, b.values, sum.values)}};
  }
};

}  // namespace

void solve_systems_avx512(const TriangularSystems<float>& p) { solve_systems<Floats>(p); }
void solve_systems_avx512(const TriangularSystems<double>& p) { solve_systems<Doubles>(p); }
bool factor_cholesky_avx512(const CholeskyFactor<float>& p) { return factor_cholesky<Floats>(p); }
bool factor_cholesky_avx512(const CholeskyFactor<double>& p) { return factor_cholesky<Doubles>(p); }

}  // namespace lockstep::backend::cpu

#endif
