// Matrix products of floats and complex numbers by ATen.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/products/matrix_product.h"

namespace lockstep::backend::aten::kernels {

namespace {

at::Tensor tensor_of_side(const cpu::MatrixOperand& side, void* data, at::ScalarType type, std::size_t from) {
  return tensor_at(data, type, at::IntArrayRef(side.sizes).slice(from), at::IntArrayRef(side.strides).slice(from));
}

void multiply(const cpu::MatrixProduct& product, const KernelArguments& arguments) {
  const ArrayView& result = arguments.outputs[0];
  const at::ScalarType type = scalar_type(arguments.inputs[0].dtype);
  void* a = product.a.matrices(arguments.inputs[0], arguments.scratch);
  void* b = product.b.matrices(arguments.inputs[1], arguments.scratch);
  const std::array<std::int64_t, 3> sizes = {product.a.sizes[0], product.a.sizes[1], product.b.sizes[2]};
  const bool single = sizes[0] == 1;
  const std::size_t from = single ? 1 : 0;
  at::Tensor out = tensor_at(result.data, scalar_type(result.dtype), at::IntArrayRef(sizes).slice(from));
  // 16-bit floats are multiplied as float32, as convolutions of them are.
  const at::ScalarType computed = is_narrow_float(arguments.inputs[0].dtype) ? at::kFloat : type;
  const at::Tensor left = tensor_of_side(product.a, a, type, from).to(computed);
  const at::Tensor right = tensor_of_side(product.b, b, type, from).to(computed);
  if (result.dtype != DType::float32 && computed == at::kFloat) {
    out.copy_(single ? at::mm(left, right) : at::bmm(left, right));
  } else if (single) {
    at::mm_out(out, left, right);
  } else {
    at::bmm_out(out, left, right);
  }
}

}  // namespace

std::unique_ptr<Kernel> dot_general(const KernelRequest& request) {
  if (request.attrs.has("sum_blocks")) return nullptr;
  auto product = cpu::MatrixProduct::of(request);
  const std::size_t scratch_bytes = product.scratch_bytes;
  return make_tensor_kernel(
      request, [product = std::move(product)](const KernelArguments& arguments) { multiply(product, arguments); },
      {.scratch_bytes = scratch_bytes});
}

}  // namespace lockstep::backend::aten::kernels
