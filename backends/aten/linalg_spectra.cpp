#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_linalg_eigh.h>
#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/mm.h>
#include <c10/util/Exception.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/linalg_matrices.h"

namespace lockstep::backend::aten::kernels {

namespace {

template <class T>
T conjugate(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else {
    return std::conj(x);
  }
}

template <class T>
bool all_finite(const T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(std::real(x[i])) || !std::isfinite(std::imag(x[i]))) return false;
  }
  return true;
}

bool is_finite(const ArrayView& view, std::int64_t k) {
  return with_lapack(view.dtype, [&]<class T>() {
    const std::int64_t count = view.shape.dim(-1) * view.shape.dim(-2);
    return all_finite(static_cast<const T*>(part_at(view, k * count)), count);
  });
}

/// Runs LAPACK; no result where it does not converge.
template <class Run>
auto attempt(Run run) -> std::optional<decltype(run())> {
  try {
    return run();
  } catch (const c10::LinAlgError&) {
    return std::nullopt;
  }
}

/// An array of elements at steps.
template <class T>
struct Steps {
  T* first;
  std::int64_t step;
  std::int64_t count;

  T& operator[](std::int64_t i) const { return first[i * step]; }
  void scale(T factor) const {
    for (std::int64_t i = 0; i < count; ++i) (*this)[i] *= factor;
  }
};

/// Makes the deciding element of a column real and positive: the first one that has at least 0.7 of the largest
/// magnitude, so that rounding does not choose between equal ones. Returns the factor.
template <class T>
T settle(const Steps<T>& column) {
  using Real = decltype(std::abs(T{}));
  Real largest = 0;
  for (std::int64_t i = 0; i < column.count; ++i) largest = std::max(largest, std::abs(column[i]));
  for (std::int64_t i = 0; i < column.count; ++i) {
    const Real size = std::abs(column[i]);
    if (!(size > 0) || size < Real(0.7) * largest) continue;
    const T factor = conjugate(column[i]) / size;
    column.scale(factor);
    column[i] = size;
    return factor;
  }
  return T(1);
}

template <class T>
Steps<T> column_of(const at::Tensor& x, std::int64_t j) {
  return {static_cast<T*>(x.data_ptr()) + j * x.stride(1), x.stride(0), x.size(0)};
}
template <class T>
Steps<T> row_of(const at::Tensor& x, std::int64_t i) {
  return {static_cast<T*>(x.data_ptr()) + i * x.stride(0), x.stride(1), x.size(1)};
}

/// Columns beyond the first `count` of `u`, which are orthonormal: those of their Householder q.
void complete_columns(const at::Tensor& u, std::int64_t count) {
  const std::int64_t missing = u.size(1) - count;
  if (missing == 0) return;
  const at::Tensor q = std::get<0>(at::linalg_qr(u.narrow(1, 0, count), "complete"));
  u.narrow(1, count, missing).copy_(q.narrow(1, count, missing));
}

void svd_vectors(const KernelArguments& arguments, std::int64_t k) {
  const at::Tensor u = matrix_at(arguments.outputs[0], k);
  const at::Tensor s = row_at(arguments.outputs[1], k);
  const at::Tensor vh = matrix_at(arguments.outputs[2], k);
  const auto factors = is_finite(arguments.inputs[0], k)
                           ? attempt([&] { return at::_linalg_svd(matrix_at(arguments.inputs[0], k), false, true); })
                           : std::nullopt;
  if (!factors) {
    for (const at::Tensor* result : {&u, &s, &vh}) fill_nan(at::Tensor(*result));
    return;
  }
  const std::int64_t count = s.numel();
  s.copy_(std::get<1>(*factors));
  u.narrow(1, 0, count).copy_(std::get<0>(*factors));
  vh.narrow(0, 0, count).copy_(std::get<2>(*factors));
  with_lapack(arguments.inputs[0].dtype, [&]<class T>() {
    for (std::int64_t j = 0; j < count; ++j) row_of<T>(vh, j).scale(conjugate(settle(column_of<T>(u, j))));
  });
  complete_columns(u, count);
  complete_columns(vh.mH(), count);
}

void svd_values(const KernelArguments& arguments, std::int64_t k) {
  at::Tensor s = row_at(arguments.outputs[0], k);
  const auto factors = is_finite(arguments.inputs[0], k)
                           ? attempt([&] { return at::_linalg_svd(matrix_at(arguments.inputs[0], k), false, false); })
                           : std::nullopt;
  if (factors) {
    s.copy_(std::get<1>(*factors));
  } else {
    fill_nan(std::move(s));
  }
}

void eigh_matrix(const KernelArguments& arguments, std::int64_t k, bool lower) {
  const at::Tensor w = row_at(arguments.outputs[0], k);
  const at::Tensor v = matrix_at(arguments.outputs[1], k);
  const auto result =
      is_finite(arguments.inputs[0], k)
          ? attempt([&] { return at::_linalg_eigh(matrix_at(arguments.inputs[0], k), lower ? "L" : "U", true); })
          : std::nullopt;
  if (!result) {
    for (const at::Tensor* each : {&w, &v}) fill_nan(at::Tensor(*each));
    return;
  }
  w.copy_(std::get<0>(*result));
  v.copy_(std::get<1>(*result));
  with_lapack(arguments.inputs[0].dtype, [&]<class T>() {
    for (std::int64_t j = 0; j < v.size(1); ++j) settle(column_of<T>(v, j));
  });
}

void pinv_matrix(const KernelArguments& arguments, std::int64_t k, double rtol) {
  at::Tensor out = matrix_at(arguments.outputs[0], k);
  const auto factors = is_finite(arguments.inputs[0], k)
                           ? attempt([&] { return at::_linalg_svd(matrix_at(arguments.inputs[0], k), false, true); })
                           : std::nullopt;
  if (!factors) return fill_nan(std::move(out));
  const auto& [u, s, vh] = *factors;
  std::int64_t rank = 0;
  while (rank < s.numel() && s[rank].item<double>() > rtol * s[0].item<double>()) ++rank;
  if (rank == 0) {
    out.zero_();
    return;
  }
  at::mm_out(out, vh.narrow(0, 0, rank).mH() / s.narrow(0, 0, rank), u.narrow(1, 0, rank).mH());
}

}  // namespace

std::unique_ptr<Kernel> svd(const KernelRequest& request) {
  return make_by_matrix(request, request.attrs.get<bool>("compute_uv") ? svd_vectors : svd_values);
}

std::unique_ptr<Kernel> eigh(const KernelRequest& request) {
  return make_by_matrix(request,
                        [lower = request.attrs.get<bool>("lower")](const KernelArguments& arguments, std::int64_t k) {
                          eigh_matrix(arguments, k, lower);
                        });
}

std::unique_ptr<Kernel> pinv(const KernelRequest& request) {
  return make_by_matrix(request,
                        [rtol = request.attrs.get<double>("rtol")](const KernelArguments& arguments, std::int64_t k) {
                          pinv_matrix(arguments, k, rtol);
                        });
}

}  // namespace lockstep::backend::aten::kernels
