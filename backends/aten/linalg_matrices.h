#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include <lockstep/backend/round_up.h>

#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"
#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/parts.h"

// Kernels that go through LAPACK, matrix by matrix, so that a matrix's bits do not depend on the batch it is in.
namespace lockstep::backend::aten {

inline bool has_lapack(DType dtype) { return is_complex(dtype) || dtype == DType::float32 || dtype == DType::float64; }

/// The same calls for float32, float64 and the complex dtypes.
template <class F>
auto with_lapack(DType dtype, F&& f) {
  if (is_complex(dtype)) return with_complex(dtype, f);
  return dtype == DType::float64 ? f.template operator()<double>() : f.template operator()<float>();
}

inline std::int64_t matrix_count(const Shape& shape) {
  std::int64_t count = 1;
  for (int d = 0; d + 2 < shape.rank(); ++d) count *= shape[d];
  return count;
}

inline void* part_at(const ArrayView& view, std::int64_t first) {
  return static_cast<std::byte*>(view.data) + static_cast<std::size_t>(first) * size_of(view.dtype);
}

/// Matrix number `k` of a row-major array.
inline at::Tensor matrix_at(const ArrayView& view, std::int64_t k) {
  const std::int64_t rows = view.shape.dim(-2);
  const std::int64_t columns = view.shape.dim(-1);
  return tensor_at(part_at(view, k * rows * columns), scalar_type(view.dtype), {rows, columns});
}

/// Row number `k` of a row-major array of rows.
inline at::Tensor row_at(const ArrayView& view, std::int64_t k) {
  const std::int64_t length = view.shape.dim(-1);
  return tensor_at(part_at(view, k * length), scalar_type(view.dtype), {length});
}

inline void fill_nan(at::Tensor&& result) { result.fill_(std::numeric_limits<double>::quiet_NaN()); }

/// A kernel that calls run(arguments, k, block) for each of so many blocks of each matrix of operand 0; large ones are for
/// several threads.
template <class Run>
std::unique_ptr<Kernel> make_in_blocks(const KernelRequest& request, std::int64_t blocks, Run run) {
  if (!has_lapack(request.inputs[0].dtype)) return nullptr;
  const Shape& shape = request.inputs[0].shape;
  const std::int64_t count = matrix_count(shape) * blocks;
  const std::int64_t work = std::max(shape.size(), request.outputs[0].size()) * std::min(shape.dim(-1), shape.dim(-2));
  const std::int64_t parts = std::clamp<std::int64_t>(work / cpu::least_part, 1, cpu::most_parts);
  return cpu::make_cut_kernel(
      cpu::Cut{count, ceil_div(count, parts)},
      [op = std::string(request.op), blocks, run](const KernelArguments& arguments, cpu::Range range) {
        call_tensor_library(op, [&] {
          for (std::int64_t i = range.first; i < range.last; ++i) run(arguments, i / blocks, i % blocks);
        });
      });
}

/// A kernel that calls run(arguments, k) for each matrix of operand 0.
template <class Run>
std::unique_ptr<Kernel> make_by_matrix(const KernelRequest& request, Run run) {
  return make_in_blocks(request, 1, [run](const KernelArguments& arguments, std::int64_t k, std::int64_t /*block*/) {
    run(arguments, k);
  });
}

}  // namespace lockstep::backend::aten
