#pragma once

// The one bridge between arrays and ATen's tensors. It exists where Lockstep was built with its aten backend, and is for
// programs that use LibTorch themselves: nothing else of Lockstep includes ATen.

#include <ATen/DLConvertor.h>
#include <ATen/core/Tensor.h>

#include <lockstep/array.h>
#include <lockstep/dlpack.h>

namespace lockstep {

/// The array's memory as a tensor on the CPU, without a copy. It must not be written: arrays do not change. Throws
/// TraceError for a traced value, DtypeError for keys.
inline at::Tensor to_aten(const Array& array) {
  return at::fromDLPack(reinterpret_cast<DLManagedTensor*>(to_dlpack(array).release()));
}

/// An array over the tensor's memory, which must not be written any more; without a copy where it is row-major and
/// aligned to 64 bytes, as ATen's own allocations are. Its history for autograd is left behind. Throws BackendError for
/// a tensor that is not on the CPU, DtypeError for an element type without a DType.
inline Array from_aten(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg();
  return from_dlpack(dlpack::Managed(reinterpret_cast<dlpack::ManagedTensor*>(at::toDLPack(plain))));
}

}  // namespace lockstep
