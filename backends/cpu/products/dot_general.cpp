// dot_general in plain loops: of integers, of no elements, and with the attribute `sum_blocks`.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/products/matrix_product.h"
#include "backends/cpu/products/ordered_product.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// Integers, modulo 2^n.
template <class T>
void multiply_integers(const MatrixProduct& product, const KernelArguments& arguments) {
  const T* a = static_cast<const T*>(product.a.matrices(arguments.inputs[0], arguments.scratch));
  const T* b = static_cast<const T*>(product.b.matrices(arguments.inputs[1], arguments.scratch));
  T* out = static_cast<T*>(arguments.outputs[0].data);
  const auto [batch, rows, depth] = product.a.sizes;
  const std::int64_t columns = product.b.sizes[2];
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t i = 0; i < rows; ++i, out += columns) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::uint64_t x = a[n * product.a.strides[0] + i * product.a.strides[1] + k * product.a.strides[2]];
        const T* row = b + n * product.b.strides[0] + k * product.b.strides[1];
        for (std::int64_t j = 0; j < columns; ++j) {
          out[j] = static_cast<T>(out[j] + x * static_cast<std::uint64_t>(row[j * product.b.strides[2]]));
        }
      }
    }
  }
}

void set_zero(const ArrayView& out) {
  const auto nbytes = static_cast<std::size_t>(out.shape.size()) * size_of(out.dtype);
  if (nbytes > 0) std::memset(out.data, 0, nbytes);
}

}  // namespace

std::unique_ptr<Kernel> dot_general(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_inexact(dtype) && !is_integer(dtype)) return nullptr;
  if (request.inputs[0].size() == 0 || request.inputs[1].size() == 0) {
    return make_function_kernel([](const KernelArguments& arguments) { set_zero(arguments.outputs[0]); });
  }
  if (request.attrs.has("sum_blocks")) return make_ordered_product(request);
  if (!is_integer(dtype)) return nullptr;
  using Run = void (*)(const MatrixProduct&, const KernelArguments&);
  const Run run = with_bits(dtype, []<class T>() -> Run { return multiply_integers<T>; });
  MatrixProduct product = MatrixProduct::of(request);
  const std::size_t scratch_bytes = product.scratch_bytes;
  return make_function_kernel(
      [run, product = std::move(product)](const KernelArguments& arguments) {
        set_zero(arguments.outputs[0]);
        run(product, arguments);
      },
      {.scratch_bytes = scratch_bytes});
}

}  // namespace lockstep::backend::cpu::kernels
