#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/row_kernels.h>

namespace lockstep {

namespace backend {

Buffer::~Buffer() = default;
Kernel::~Kernel() = default;
RowReader::~RowReader() = default;
Backend::~Backend() = default;

}  // namespace backend

bool ArrayView::is_contiguous() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  const auto expected = contiguous_view(data, dtype, shape).strides;
  for (int d = 0; d < shape.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (shape[d] != 1 && strides[i] != expected[i]) return false;
  }
  return true;
}

ArrayView contiguous_view(void* data, DType dtype, const Shape& shape) {
  ArrayView view{data, dtype, shape, {}};
  std::int64_t stride = 1;  // as row_major_strides has them, without memory for a list: kernels make views as they run
  for (int d = shape.rank(); d-- > 0; stride *= shape[d]) view.strides[static_cast<std::size_t>(d)] = stride;
  return view;
}

}  // namespace lockstep
