#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include <lockstep/profile.h>

namespace lockstep::benches {

// Cholesky's factor of a matrix of 512 x 512, the solution of as many triangular systems, and the gradients of both, under
// plain jit: cholesky, cholesky_grad, triangular_solve and triangular_solve_grad, of float64 with _float64 behind the name.

bool is_matrix_workload(std::string_view name);
void write_matrix_inputs(std::string_view name, const std::filesystem::path& folder);
/// Makes one call and reads an element of the result on the host.
std::function<double()> matrix_call(std::string_view name, const std::filesystem::path& folder,
                                    std::shared_ptr<Profile> profile);

}  // namespace lockstep::benches
