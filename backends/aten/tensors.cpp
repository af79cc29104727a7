#include "backends/aten/tensors.h"

#include <string>

#include <ATen/ops/from_blob.h>

#include <lockstep/error.h>

namespace lockstep::backend::aten {

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return at::kBool;
    case DType::int8:
      return at::kChar;
    case DType::int16:
      return at::kShort;
    case DType::int32:
      return at::kInt;
    case DType::int64:
      return at::kLong;
    case DType::uint8:
      return at::kByte;
    case DType::uint16:
      return at::kUInt16;
    case DType::uint32:
      return at::kUInt32;
    case DType::uint64:
      return at::kUInt64;
    case DType::float16:
      return at::kHalf;
    case DType::bfloat16:
      return at::kBFloat16;
    case DType::float32:
      return at::kFloat;
    case DType::float64:
      return at::kDouble;
    case DType::complex64:
      return at::kComplexFloat;
    case DType::complex128:
      return at::kComplexDouble;
    case DType::key:
      break;
  }
  throw DtypeError("aten backend: " + std::string(name(dtype)) +
                   " has no arithmetic; only moves and the random ops take it (random_unwrap gives its words)");
}

at::ScalarType bits_type(DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    case 8:
      return at::kLong;
    default:
      return at::kComplexDouble;
  }
}

at::Tensor tensor_at(void* data, at::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::from_blob(data, sizes, strides, at::TensorOptions(type));
}

at::Tensor tensor_at(void* data, at::ScalarType type, at::IntArrayRef sizes) {
  return at::from_blob(data, sizes, at::TensorOptions(type));
}

at::Tensor tensor_of(const ArrayView& view) {
  const at::IntArrayRef sizes = sizes_of(view.shape);
  return tensor_at(view.data, scalar_type(view.dtype), sizes, {view.strides.data(), sizes.size()});
}

at::Tensor bits_of(const ArrayView& view) {
  const at::IntArrayRef sizes = sizes_of(view.shape);
  return tensor_at(view.data, bits_type(view.dtype), sizes, {view.strides.data(), sizes.size()});
}

}  // namespace lockstep::backend::aten
