#include <algorithm>

#include <lockstep/backend.h>
#include <lockstep/row_kernels.h>

namespace lockstep {

Buffer::~Buffer() = default;
Kernel::~Kernel() = default;
RowReader::~RowReader() = default;
Backend::~Backend() = default;

bool ArrayView::is_contiguous() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  const std::vector<std::int64_t> expected = row_major_strides(shape);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (shape[static_cast<int>(i)] != 1 && strides[i] != expected[i]) return false;
  }
  return true;
}

ArrayView contiguous_view(void* data, DType dtype, const Shape& shape) {
  ArrayView view{data, dtype, shape, {}};
  std::ranges::copy(row_major_strides(shape), view.strides.begin());
  return view;
}

}  // namespace lockstep
