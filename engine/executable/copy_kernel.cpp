#include "engine/executable/copy_kernel.h"

#include <cstring>

namespace lockstep::executable {
namespace {

template <std::size_t bytes>
void copy_row(const std::byte* from, std::byte* to, std::int64_t count, std::int64_t from_step, std::int64_t to_step) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_step, from + i * from_step, bytes);
  }
}

/// The views with neighbouring dimensions joined wherever both are laid out for it.
struct Coalesced {
  int rank = 0;
  std::array<std::int64_t, Shape::max_rank> extent{};
  std::array<std::int64_t, Shape::max_rank> from{};
  std::array<std::int64_t, Shape::max_rank> to{};
};

Coalesced joined_dims(const ArrayView& from, const ArrayView& to) {
  Coalesced joined;
  for (int i = 0; i < from.shape.rank(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    const std::int64_t extent = from.shape[i];
    if (extent == 1) continue;
    const auto last = static_cast<std::size_t>(joined.rank - 1);
    if (joined.rank > 0 && joined.from[last] == from.strides[d] * extent && joined.to[last] == to.strides[d] * extent) {
      joined.extent[last] *= extent;
      joined.from[last] = from.strides[d];
      joined.to[last] = to.strides[d];
      continue;
    }
    const auto next = static_cast<std::size_t>(joined.rank++);
    joined.extent[next] = extent;
    joined.from[next] = from.strides[d];
    joined.to[next] = to.strides[d];
  }
  return joined;
}

void copy_dims(const Coalesced& joined, int dim, const std::byte* from, std::byte* to, std::size_t bytes) {
  const auto d = static_cast<std::size_t>(dim);
  const auto width = static_cast<std::int64_t>(bytes);
  if (dim == joined.rank) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::int64_t from_step = joined.from[d] * width;
  const std::int64_t to_step = joined.to[d] * width;
  if (dim + 1 < joined.rank) {
    for (std::int64_t i = 0; i < joined.extent[d]; ++i)
      copy_dims(joined, dim + 1, from + i * from_step, to + i * to_step, bytes);
    return;
  }
  if (from_step == width && to_step == width) {
    std::memcpy(to, from, static_cast<std::size_t>(joined.extent[d]) * bytes);
    return;
  }
  switch (bytes) {
    case 1:
      return copy_row<1>(from, to, joined.extent[d], from_step, to_step);
    case 2:
      return copy_row<2>(from, to, joined.extent[d], from_step, to_step);
    case 4:
      return copy_row<4>(from, to, joined.extent[d], from_step, to_step);
    case 8:
      return copy_row<8>(from, to, joined.extent[d], from_step, to_step);
    default:
      return copy_row<16>(from, to, joined.extent[d], from_step, to_step);
  }
}

}  // namespace

void CopyKernel::run(const KernelArguments& arguments) const {
  const ArrayView& from = arguments.inputs[0];
  const ArrayView& to = arguments.outputs[0];
  for (std::int64_t extent : from.shape) {
    if (extent == 0) return;
  }
  if (from.data == to.data) return;
  copy_dims(joined_dims(from, to), 0, static_cast<const std::byte*>(from.data), static_cast<std::byte*>(to.data),
            size_of(from.dtype));
}

void ZeroKernel::run(const KernelArguments& arguments) const {
  const ArrayView& to = arguments.outputs[0];
  std::memset(to.data, 0, static_cast<std::size_t>(ArrayType{to.dtype, to.shape, {}}.nbytes()));
}

}  // namespace lockstep::executable
