#if defined(__AVX512F__)

#include <cstdint>

#include <immintrin.h>

#include "backends/cpu/triangular/triangular_loops.h"
#include "backends/cpu/triangular/vector_lanes.h"

namespace lockstep::backend::cpu {

namespace {

struct Avx512Floats : VectorLanes<Avx512Floats, float, 64> {
  static constexpr std::int64_t most_vectors = 4;
  static Avx512Floats all(float x) { return {{_mm512_set1_ps(x)}}; }
  static Avx512Floats without_product(Avx512Floats sum, Avx512Floats a, Avx512Floats b) {
    return {{_mm512_fnmadd_ps(a.values, b.values, sum.values)}};
  }
};

struct Avx512Doubles : VectorLanes<Avx512Doubles, double, 64> {
  static constexpr std::int64_t most_vectors = 4;
  static Avx512Doubles all(double x) { return {{_mm512_set1_pd(x)}}; }
  static Avx512Doubles without_product(Avx512Doubles sum, Avx512Doubles a, Avx512Doubles b) {
    return {{_mm512_fnmadd_pd(a.values, b.values, sum.values)}};
  }
};

}  // namespace

void solve_systems_avx512(const TriangularSystems<float>& p) { solve_systems<Avx512Floats>(p); }
void solve_systems_avx512(const TriangularSystems<double>& p) { solve_systems<Avx512Doubles>(p); }
bool factor_cholesky_avx512(const CholeskyFactor<float>& p) { return factor_cholesky<Avx512Floats>(p); }
bool factor_cholesky_avx512(const CholeskyFactor<double>& p) { return factor_cholesky<Avx512Doubles>(p); }

}  // namespace lockstep::backend::cpu

#endif
