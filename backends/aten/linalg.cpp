#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>

#include <lockstep/backend/round_up.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/linalg_matrices.h"

namespace lockstep::backend::aten::kernels {

namespace {

/// Replaces the lower triangle of a positive definite matrix by its factor's, some columns at a time: LAPACK's own takes
/// twice as long on one thread. The rest stays. False where it is not positive definite.
bool factor_in_place(const at::Tensor& a) {
  constexpr std::int64_t columns_at_once = 96;  // measured
  const std::int64_t n = a.size(0);
  const auto block = [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    return a.narrow(0, row, rows).narrow(1, column, columns);
  };
  for (std::int64_t first = 0; first < n; first += columns_at_once) {
    const std::int64_t columns = std::min(columns_at_once, n - first), next = first + columns;
    at::Tensor corner = block(first, columns, first, columns);
    const auto [l, info] = at::linalg_cholesky_ex(corner, false, false);
    if (info.item<int>() != 0) return false;
    corner.copy_(l);
    if (next == n) break;
    at::Tensor below = block(next, n - next, first, columns);
    const at::Tensor solved = at::linalg_solve_triangular(l.mH(), below, true, false, false).contiguous();
    below.copy_(solved);
    for (std::int64_t c = next; c < n; c += columns_at_once) {
      const std::int64_t width = std::min(columns_at_once, n - c);
      at::Tensor rest = block(c, n - c, c, width);
      at::addmm_out(rest, rest, solved.narrow(0, c - next, n - c), solved.narrow(0, c - next, width).mH(), 1, -1);
    }
  }
  return true;
}

}  // namespace

std::unique_ptr<Kernel> cholesky(const KernelRequest& request) {
  return make_by_matrix(request, [](const KernelArguments& arguments, std::int64_t k) {
    at::Tensor out = matrix_at(arguments.outputs[0], k);
    out.copy_(matrix_at(arguments.inputs[0], k));
    if (!factor_in_place(out)) fill_nan(at::Tensor(out));
    out.tril_();
  });
}

std::unique_ptr<Kernel> triangular_solve(const KernelRequest& request) {
  const bool left = request.attrs.get<bool>("left_side");
  const bool lower = request.attrs.get<bool>("lower");
  const bool transposed = request.attrs.get<bool>("transpose_a");
  const bool conjugated = request.attrs.get<bool>("conjugate_a") && is_complex(request.inputs[0].dtype);
  const bool unit = request.attrs.get<bool>("unit_diagonal");
  constexpr std::int64_t systems_at_once = 128;  // measured
  const std::int64_t systems = request.inputs[1].shape.dim(left ? -1 : -2);
  const std::int64_t blocks = ceil_div(systems, systems_at_once);
  return make_in_blocks(request, blocks, [=](const KernelArguments& arguments, std::int64_t k, std::int64_t number) {
    at::Tensor a = matrix_at(arguments.inputs[0], k);
    if (conjugated) a = a.conj();
    if (transposed) a = a.mT();
    const std::int64_t first = number * systems_at_once;
    const auto block = [&](const ArrayView& view) {
      return matrix_at(view, k).narrow(left ? 1 : 0, first, std::min(systems_at_once, systems - first));
    };
    at::Tensor out = block(arguments.outputs[0]);
    if (out.numel() == 0) return;
    const bool is_direct = out.is_contiguous();  // else ATen would bring all of it to another layout and back
    at::Tensor solution = is_direct ? out : at::empty(out.sizes(), out.options());
    at::linalg_solve_triangular_out(solution, a, block(arguments.inputs[1]), lower == transposed, left, unit);
    if (!is_direct) out.copy_(solution);
  });
}

std::unique_ptr<Kernel> lu(const KernelRequest& request) {
  return make_by_matrix(request, [](const KernelArguments& arguments, std::int64_t k) {
    const auto [factors, from_one, info] = at::linalg_lu_factor_ex(matrix_at(arguments.inputs[0], k), true, false);
    matrix_at(arguments.outputs[0], k).copy_(factors);
    const at::Tensor pivots = row_at(arguments.outputs[1], k);
    const at::Tensor permutation = row_at(arguments.outputs[2], k);
    std::int32_t* order = permutation.data_ptr<std::int32_t>();
    std::iota(order, order + permutation.numel(), 0);
    const std::int32_t* given = from_one.data_ptr<std::int32_t>();
    for (std::int64_t i = 0; i < pivots.numel(); ++i) {
      pivots.data_ptr<std::int32_t>()[i] = given[i] - 1;
      std::swap(order[i], order[given[i] - 1]);
    }
  });
}

std::unique_ptr<Kernel> qr(const KernelRequest& request) {
  const bool full = request.attrs.get<bool>("full_matrices");
  return make_by_matrix(request, [full](const KernelArguments& arguments, std::int64_t k) {
    const auto [q, r] = at::linalg_qr(matrix_at(arguments.inputs[0], k), full ? "complete" : "reduced");
    matrix_at(arguments.outputs[0], k).copy_(q);
    matrix_at(arguments.outputs[1], k).copy_(r);
  });
}

}  // namespace lockstep::backend::aten::kernels
