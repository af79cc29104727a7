#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// cholesky of float32 and float64, where the processor has AVX2. Null elsewhere.
std::unique_ptr<Kernel> make_cholesky(const KernelRequest& request);

/// triangular_solve of float32 and float64, where the processor has AVX2 and there are more than very few systems. Null
/// elsewhere.
std::unique_ptr<Kernel> make_triangular_solve(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
