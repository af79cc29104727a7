#include "backends/aten/moves.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include <ATen/core/Tensor.h>

#include "backends/aten/element_types.h"
#include "backends/aten/tensors.h"

namespace lockstep::backends::aten {

void copy_elements(const ArrayView& target, const ArrayView& source, void* first, const Strides& strides) {
  if (target.shape.size() == 0) return;
  const at::IntArrayRef sizes = sizes_of(target.shape);
  const at::ScalarType type = bits_type(source.dtype);
  tensor_at(target.data, type, sizes, {target.strides.data(), sizes.size()})
      .copy_(tensor_at(first, type, sizes, {strides.data(), sizes.size()}));
}

void fill_elements(const ArrayView& target, const void* element) {
  with_moved(target.dtype, [&]<class T>() {
    std::fill_n(static_cast<T*>(target.data), target.shape.size(), *static_cast<const T*>(element));
  });
}

void* element_at(const ArrayView& view, std::span<const std::int64_t> index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides[d];
  return static_cast<std::byte*>(view.data) + offset * static_cast<std::int64_t>(size_of(view.dtype));
}

std::int64_t integer_at(const ArrayView& view, std::int64_t i) {
  return with_integer(view.dtype, [&]<class T>() {
    const T element = static_cast<const T*>(view.data)[i];
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return static_cast<std::int64_t>(std::min(element, static_cast<T>(std::numeric_limits<std::int64_t>::max())));
    } else {
      return static_cast<std::int64_t>(element);
    }
  });
}

std::vector<std::int64_t> clamped_start(std::span<const ArrayView> indices, const Shape& shape, const Shape& sizes) {
  std::vector<std::int64_t> start;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const auto at = static_cast<int>(d);
    start.push_back(std::clamp<std::int64_t>(integer_at(indices[d], 0), 0, shape[at] - sizes[at]));
  }
  return start;
}

}  // namespace lockstep::backends::aten
