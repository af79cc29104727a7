
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include <lockstep/backend/isa.h>
#include <lockstep/backend/round_up.h>

#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/parts.h"
#include "backends/cpu/triangular/triangular_loops.h"

namespace lockstep::backend::cpu {

namespace {

bool has_loops(DType dtype) {
#if defined(__x86_64__)
  return usable_isa() != Isa::none && (dtype == DType::float32 || dtype == DType::float64);
#else
  static_cast<void>(dtype);
  return false;
#endif
}

template <class T>
using Solve = void (*)(const TriangularSystems<T>& p);
template <class T>
using Factor = bool (*)(const CholeskyFactor<T>& p);

template <class T>
Solve<T> widest_solve() {
#if defined(__x86_64__)
  return usable_isa() == Isa::avx512 ? Solve<T>(solve_systems_avx512) : Solve<T>(solve_systems_avx2);
#else
  return nullptr;
#endif
}

template <class T>
Factor<T> widest_factor() {
#if defined(__x86_64__)
  return usable_isa() == Isa::avx512 ? Factor<T>(factor_cholesky_avx512) : Factor<T>(factor_cholesky_avx2);
#else
  return nullptr;
#endif
}

/// The operation of a request on matrices of elements T.
template <class T>
class Solution {
 public:
  explicit Solution(const KernelRequest& request)
      : n_(request.inputs[0].shape.dim(-1)),
        is_left_(request.attrs.get<bool>("left_side")),
        has_unit_diagonal_(request.attrs.get<bool>("unit_diagonal")) {
    const bool is_transposed = request.attrs.get<bool>("transpose_a") == is_left_;  // x op(a) = b is op(a)^T x^T = b^T
    is_forward_ = request.attrs.get<bool>("lower") != is_transposed;
    systems_ = request.inputs[1].shape.dim(is_left_ ? -1 : -2);
    row_ = is_transposed ? 1 : n_;
    column_ = is_transposed ? n_ : 1;
  }

  std::int64_t unknowns() const { return n_; }
  std::int64_t systems() const { return systems_; }
  std::int64_t blocks() const { return ceil_div(systems_, systems_at_once); }

  /// Block number i % blocks() of matrix i / blocks().
  void run(const KernelArguments& arguments, std::int64_t i) const {
    const std::int64_t matrix = i / blocks(), first = i % blocks() * systems_at_once;
    const std::int64_t unknown = is_left_ ? systems_ : 1, system = is_left_ ? 1 : n_;
    const std::int64_t sign = is_forward_ ? 1 : -1, start = is_forward_ ? 0 : n_ - 1;
    const std::int64_t at = matrix * n_ * systems_ + first * system + start * unknown;
    solve_({.a = static_cast<const T*>(arguments.inputs[0].data) + matrix * n_ * n_ + start * (n_ + 1),
            .a_row = sign * row_,
            .a_column = sign * column_,
            .b = static_cast<const T*>(arguments.inputs[1].data) + at,
            .x = static_cast<T*>(arguments.outputs[0].data) + at,
            .unknown = sign * unknown,
            .system = system,
            .unknowns = n_,
            .systems = std::min(systems_at_once, systems_ - first),
            .has_unit_diagonal = has_unit_diagonal_,
            .scratch = static_cast<T*>(arguments.scratch)});
  }

 private:
  static constexpr std::int64_t systems_at_once = panels_at_once * panel_bytes / static_cast<std::int64_t>(sizeof(T));

  std::int64_t n_, systems_ = 0, row_ = 0, column_ = 0;
  bool is_left_, is_forward_ = false, has_unit_diagonal_;
  Solve<T> solve_ = widest_solve<T>();
};

/// A kernel that calls run(arguments, i) for each i below `count`, in parts that are worth it.
template <class Run>
std::unique_ptr<Kernel> make_in_parts(std::int64_t count, std::int64_t work, std::size_t scratch_bytes, Run run) {
  const std::int64_t parts = std::clamp<std::int64_t>(work / least_part, 1, most_parts);
  return std::make_unique<CutKernel>(Cut{count, ceil_div(count, parts)}, [=](Range range) {
    return make_function_kernel(
        [run, range](const KernelArguments& arguments) {
          for (std::int64_t i = range.first; i < range.last; ++i) run(arguments, i);
        },
        {.scratch_bytes = scratch_bytes});
  });
}

template <class T>
std::unique_ptr<Kernel> make_solution(const KernelRequest& request) {
  const Solution<T> solution(request);
  const std::int64_t numbers = request.inputs[1].shape.size();
  const std::int64_t matrix = solution.unknowns() * solution.systems();
  const std::int64_t matrices = matrix == 0 ? 0 : numbers / matrix;
  return make_in_parts(matrices * solution.blocks(), numbers * solution.unknowns(),
                       triangular_scratch(solution.unknowns()),
                       [solution](const KernelArguments& arguments, std::int64_t i) { solution.run(arguments, i); });
}

template <class T>
std::unique_ptr<Kernel> make_factor(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const std::int64_t n = shape.dim(-1), size = n * n;
  return make_in_parts(size == 0 ? 0 : shape.size() / size, shape.size() * n, cholesky_scratch<T>(n),
                       [n, size, factor = widest_factor<T>()](const KernelArguments& arguments, std::int64_t i) {
                         const T* const a = static_cast<const T*>(arguments.inputs[0].data) + i * size;
                         T* const l = static_cast<T*>(arguments.outputs[0].data) + i * size;
                         if (factor({.a = a, .l = l, .n = n, .scratch = static_cast<T*>(arguments.scratch)})) return;
                         for (std::int64_t row = 0; row < n; ++row) {
                           std::fill(l + row * n, l + row * n + row + 1, std::numeric_limits<T>::quiet_NaN());
                           std::fill(l + row * n + row + 1, l + (row + 1) * n, T(0));
                         }
                       });
}

}  // namespace

namespace kernels {

/// Of float32 and float64, where the processor has AVX2. Null elsewhere.
std::unique_ptr<Kernel> cholesky(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!has_loops(dtype)) return nullptr;
  return dtype == DType::float64 ? make_factor<double>(request) : make_factor<float>(request);
}

/// Of float32 and float64, where the processor has AVX2 and there are more than very few systems. Null elsewhere.
std::unique_ptr<Kernel> triangular_solve(const KernelRequest& request) {
  constexpr std::int64_t few_systems = 4;    // that leave most lanes without one
  constexpr std::int64_t small_matrix = 64;  // which costs less than a call of LAPACK
  const DType dtype = request.inputs[0].dtype;
  if (!has_loops(dtype)) return nullptr;
  const std::int64_t systems = request.inputs[1].shape.dim(request.attrs.get<bool>("left_side") ? -1 : -2);
  if (systems <= few_systems && request.inputs[0].shape.dim(-1) > small_matrix) return nullptr;
  return dtype == DType::float64 ? make_solution<double>(request) : make_solution<float>(request);
}

}  // namespace kernels

}  // namespace lockstep::backend::cpu
