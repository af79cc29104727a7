#if defined(__AVX2__)

#include <cstdint>

#include <immintrin.h>

#include "backends/cpu/triangular/triangular_loops.h"
#include "backends/cpu/triangular/vector_lanes.h"

namespace lockstep::backend::cpu {

namespace {

struct Avx2Floats : VectorLanes<Avx2Floats, float, 32> {
  static constexpr std::int64_t most_vectors = 3;
  static Avx2Floats all(float x) { return {{_mm256_set1_ps(x)}}; }
  static Avx2Floats without_product(Avx2Floats sum, Avx2Floats a, Avx2Floats b) {
    return {{_mm256_fnmadd_ps(a.values, b.values, sum.values)}};
  }
};

struct Avx2Doubles : VectorLanes<Avx2Doubles, double, 32> {
  static constexpr std::int64_t most_vectors = 3;
  static Avx2Doubles all(double x) { return {{_mm256_set1_pd(x)}}; }
  static Avx2Doubles without_product(Avx2Doubles sum, Avx2Doubles a, Avx2Doubles b) {
    return {{_mm256_fnmadd_pd(a.values, b.values, sum.values)}};
  }
};

}  // namespace

void solve_systems_avx2(const TriangularSystems<float>& p) { solve_systems<Avx2Floats>(p); }
void solve_systems_avx2(const TriangularSystems<double>& p) { solve_systems<Avx2Doubles>(p); }
bool factor_cholesky_avx2(const CholeskyFactor<float>& p) { return factor_cholesky<Avx2Floats>(p); }
bool factor_cholesky_avx2(const CholeskyFactor<double>& p) { return factor_cholesky<Avx2Doubles>(p); }

}  // namespace lockstep::backend::cpu

#endif
