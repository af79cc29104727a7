#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/moves/moves.h"
#include "backends/cpu/sums.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// Calls visit(i, index i clamped to [0, count)) for elements of an array of integers.
template <class Visit>
void for_each_index(const ArrayView& indices, Range range, std::int64_t count, Visit visit) {
  with_integer(indices.dtype, [&]<class T>() {
    const T* index = static_cast<const T*>(indices.data);
    for (std::int64_t i = range.first; i < range.last; ++i) {
      std::int64_t at = static_cast<std::int64_t>(index[i]);
      if (std::is_same_v<T, std::uint64_t> && at < 0) at = count - 1;
      visit(i, std::clamp<std::int64_t>(at, 0, count - 1));
    }
  });
}

/// Of whole rows only the given columns are added.
template <class T>
void scatter_rows(const KernelArguments& arguments, Range range) {
  const std::int64_t rows = arguments.outputs[0].shape[0];
  const std::int64_t width = rows == 0 ? 0 : arguments.outputs[0].shape.size() / rows;
  const Columns<T, Wide<T>> columns(arguments, width, range);
  columns.set_to_zero();
  const T* updates = static_cast<const T*>(arguments.inputs[1].data) + range.first;
  const ArrayView& indices = arguments.inputs[0];
  for_each_index(indices, {0, indices.shape.size()}, rows, [&](std::int64_t i, std::int64_t row) {
    const T* from = updates + i * width;
    Wide<T>* to = columns.at(row * width);
    for (std::int64_t j = 0; j < columns.count(); ++j) {
      to[j] = static_cast<Wide<T>>(to[j] + static_cast<Wide<T>>(from[j]));
    }
  });
  columns.finish();
}

/// Where an element of an array lies when its coordinate along one dimension is replaced: shapes are equal but for it.
struct Along {
  std::int64_t extent;  ///< Of the indices along the dimension.
  std::int64_t inner;
  std::int64_t count;  ///< Of the array pointed into.

  Along(const Shape& indices, const Shape& array, int axis) : extent(indices[axis]), inner(1), count(array[axis]) {
    for (int d = axis + 1; d < indices.rank(); ++d) inner *= indices[d];
  }
  std::int64_t place(std::int64_t i, std::int64_t index) const {
    return (i / (extent * inner) * count + index) * inner + i % inner;
  }
};

template <class T>
void scatter_along(const Along& along, const KernelArguments& arguments) {
  const T* updates = static_cast<const T*>(arguments.inputs[1].data);
  Wide<T>* sums = zeroed_sums<T>(arguments);
  const ArrayView& indices = arguments.inputs[0];
  for_each_index(indices, {0, indices.shape.size()}, along.count, [&](std::int64_t i, std::int64_t index) {
    Wide<T>& sum = sums[along.place(i, index)];
    sum = static_cast<Wide<T>>(sum + static_cast<Wide<T>>(updates[i]));
  });
  finish_sums<T>(arguments, sums);
}

}  // namespace

std::unique_ptr<Kernel> gather_rows(const KernelRequest& request) {
  const ArrayType& table = request.inputs[0];
  const std::int64_t rows = table.shape[0];
  const std::size_t nbytes = rows == 0 ? 0 : static_cast<std::size_t>(table.nbytes() / rows);
  const Cut cut = Cut::of_moves(request.inputs[1].size(), request.outputs[0].nbytes());
  return make_cut_kernel(cut, [rows, nbytes](const KernelArguments& arguments, Range range) {
    if (nbytes == 0) return;
    const std::byte* from = static_cast<const std::byte*>(arguments.inputs[0].data);
    std::byte* to = static_cast<std::byte*>(arguments.outputs[0].data);
    for_each_index(arguments.inputs[1], range, rows, [&](std::int64_t i, std::int64_t row) {
      std::memcpy(to + static_cast<std::size_t>(i) * nbytes, from + static_cast<std::size_t>(row) * nbytes, nbytes);
    });
  });
}

std::unique_ptr<Kernel> scatter_add_rows(const KernelRequest& request) {
  const ArrayType& out = request.outputs[0];
  if (!can_add(out.dtype)) return nullptr;
  const std::int64_t width = out.shape[0] == 0 ? 0 : out.size() / out.shape[0];
  const Cut cut = Cut::of_moves(width, request.inputs[1].nbytes(), columns_apart(out.dtype));
  return with_summed(out.dtype, [&]<class T>() {
    return make_cut_kernel(cut, &scatter_rows<T>, {.scratch_bytes = sum_scratch(out)});
  });
}

std::unique_ptr<Kernel> take_along_axis(const KernelRequest& request) {
  const Along along(request.inputs[1].shape, request.inputs[0].shape,
                    static_cast<int>(request.attrs.get<std::int64_t>("axis")));
  return with_moved(request.inputs[0].dtype, [&]<class T>() {
    const Cut cut = Cut::of_moves(request.outputs[0].size(), request.outputs[0].nbytes());
    return make_cut_kernel(cut, [along](const KernelArguments& arguments, Range range) {
      const T* x = static_cast<const T*>(arguments.inputs[0].data);
      T* out = static_cast<T*>(arguments.outputs[0].data);
      for_each_index(arguments.inputs[1], range, along.count,
                     [&](std::int64_t i, std::int64_t index) { out[i] = x[along.place(i, index)]; });
    });
  });
}

std::unique_ptr<Kernel> scatter_add_along_axis(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  if (!can_add(dtype)) return nullptr;
  const Along along(request.inputs[0].shape, request.outputs[0].shape,
                    static_cast<int>(request.attrs.get<std::int64_t>("axis")));
  return with_summed(dtype, [&]<class T>() {
    using Run = void (*)(const Along&, const KernelArguments&);
    return make_function_kernel(
        [run = Run(scatter_along<T>), along](const KernelArguments& arguments) { run(along, arguments); },
        {.scratch_bytes = sum_scratch(request.outputs[0])});
  });
}

}  // namespace lockstep::backend::cpu::kernels
