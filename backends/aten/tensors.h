#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::aten {

/// Dimensions as attributes list them.
using Dims = std::vector<std::int64_t>;

/// ATen's element type for arithmetic. Keys have none (DtypeError); move them as `bits_type`.
at::ScalarType scalar_type(DType dtype);
/// An element type of the same size: what data is moved as, bit for bit.
at::ScalarType bits_type(DType dtype);

at::Tensor tensor_at(void* data, at::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides);
/// A row-major tensor.
at::Tensor tensor_at(void* data, at::ScalarType type, at::IntArrayRef sizes);

/// The view's memory as a tensor; nothing is copied, the view's memory must outlive it.
at::Tensor tensor_of(const ArrayView& view);
at::Tensor bits_of(const ArrayView& view);

inline at::IntArrayRef sizes_of(const Shape& shape) { return {shape.begin(), static_cast<std::size_t>(shape.rank())}; }

}  // namespace lockstep::backend::aten
