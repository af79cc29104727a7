#include "engine/eval/kernel_runner.h"

#include <algorithm>

#include <lockstep/error.h>

#include "engine/ir/custom_op.h"

namespace lockstep::eval {

namespace {

std::string list_types(std::span<const ArrayType> types) {
  std::string text;
  for (const ArrayType& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

BufferPtr allocate_bytes(const Backend& backend, std::size_t nbytes) {
  BufferPtr buffer = backend.allocate(std::max<std::size_t>(nbytes, 1), Device{});
  if (buffer == nullptr) {
    throw BackendError("backend " + std::string(backend.name()) + " owns no memory on cpu:0; take one that does");
  }
  return buffer;
}

}  // namespace

BufferPtr allocate(const Backend& backend, const ArrayType& type) {
  return allocate_bytes(backend, static_cast<std::size_t>(type.nbytes()));
}

BoundKernel::BoundKernel(const Backend& backend, std::string_view op, const Attrs& attrs, std::vector<ArrayType> inputs,
                         std::vector<ArrayType> outputs)
    : backend_(backend), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  const KernelRequest request{op, attrs, inputs_, outputs_, Device{}};
  kernel_ = ir::custom_kernel(request);
  if (kernel_ == nullptr) kernel_ = backend.make_kernel(request);
  if (kernel_ == nullptr) {
    throw BackendError("backend " + std::string(backend.name()) + " has no kernel for " + std::string(op) + "[" +
                       to_string(attrs) + "] from (" + list_types(inputs_) + ") to (" + list_types(outputs_) + ")");
  }
}

std::vector<BufferPtr> BoundKernel::run(std::span<const BufferPtr> inputs) const {
  std::vector<ArrayView> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    operands.push_back(contiguous_view(inputs[i]->data(), inputs_[i].dtype, inputs_[i].shape));
  }
  std::vector<BufferPtr> results;
  std::vector<ArrayView> result_views;
  for (const ArrayType& type : outputs_) {
    results.push_back(allocate(backend_, type));
    result_views.push_back(contiguous_view(results.back()->data(), type.dtype, type.shape));
  }
  const BufferPtr scratch =
      kernel_->scratch_bytes() == 0 ? nullptr : allocate_bytes(backend_, kernel_->scratch_bytes());
  kernel_->run({operands, result_views, scratch == nullptr ? nullptr : scratch->data()});
  return results;
}

}  // namespace lockstep::eval
