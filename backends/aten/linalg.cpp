#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/linalg_matrices.h"

namespace lockstep::backend::aten::kernels {

std::unique_ptr<Kernel> cholesky(const KernelRequest& request) {
  return make_by_matrix(request, [](const KernelArguments& arguments, std::int64_t k) {
    at::Tensor out = matrix_at(arguments.outputs[0], k);
    const auto [l, info] = at::linalg_cholesky_ex(matrix_at(arguments.inputs[0], k), false, false);
    if (info.item<int>() != 0) {
      fill_nan(at::Tensor(out));
      out.tril_();
    } else {
      out.copy_(l);
    }
  });
}

std::unique_ptr<Kernel> triangular_solve(const KernelRequest& request) {
  const bool left = request.attrs.get<bool>("left_side");
  const bool lower = request.attrs.get<bool>("lower");
  const bool transposed = request.attrs.get<bool>("transpose_a");
  const bool conjugated = request.attrs.get<bool>("conjugate_a") && is_complex(request.inputs[0].dtype);
  const bool unit = request.attrs.get<bool>("unit_diagonal");
  return make_by_matrix(request, [=](const KernelArguments& arguments, std::int64_t k) {
    at::Tensor a = matrix_at(arguments.inputs[0], k);
    if (conjugated) a = a.conj();
    if (transposed) a = a.mT();
    at::Tensor out = matrix_at(arguments.outputs[0], k);
    if (out.numel() == 0) return;
    out.copy_(at::linalg_solve_triangular(a, matrix_at(arguments.inputs[1], k), lower == transposed, left, unit));
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
