#include "backends/cpu/moves/window_moves.h"

#include <limits>
#include <string>
#include <utility>

#include "backends/cpu/element_types.h"

namespace lockstep::backend::cpu {

namespace {

/// Of every window that mode fill leaves out, whatever is added: an offset below 0.
constexpr std::int64_t left_out = std::numeric_limits<std::int64_t>::min() / Shape::max_rank;

Dims picked(const Dims& from, const Dims& dims) {
  Dims result;
  for (const std::int64_t dim : dims) result.push_back(from[static_cast<std::size_t>(dim)]);
  return result;
}

}  // namespace

const WindowMoves::Names WindowMoves::gather_names{"offset_dims", "collapsed_slice_dims", "start_index_map",
                                                   "operand_batching_dims", "start_indices_batching_dims"};
const WindowMoves::Names WindowMoves::scatter_names{"update_window_dims", "inserted_window_dims",
                                                    "scatter_dims_to_operand_dims", "operand_batching_dims",
                                                    "scatter_indices_batching_dims"};

Dims WindowMoves::kept_dims(const Attrs& attrs, const Names& names, int rank) {
  Dims kept;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(attrs.get<Dims>(names.collapsed), d) && !contains(attrs.get<Dims>(names.operand_batching), d)) {
      kept.push_back(d);
    }
  }
  return kept;
}

WindowMoves WindowMoves::of_gather(const KernelRequest& request) {
  return {request, gather_names, request.outputs[0].shape, request.attrs.get<Dims>("slice_sizes")};
}

WindowMoves WindowMoves::of_scatter(const KernelRequest& request) {
  const Shape& updates = request.inputs[2].shape;
  const int rank = request.inputs[0].shape.rank();
  const Dims& window_dims = request.attrs.get<Dims>(scatter_names.window_dims);
  const Dims kept = kept_dims(request.attrs, scatter_names, rank);
  Dims sizes(static_cast<std::size_t>(rank), 1);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    sizes[static_cast<std::size_t>(kept[i])] = updates[static_cast<int>(window_dims[i])];
  }
  return {request, scatter_names, updates, sizes};
}

WindowMoves::WindowMoves(const KernelRequest& request, const Names& names, const Shape& windows, const Dims& sizes)
    : window_(Shape(picked(sizes, kept_dims(request.attrs, names, request.inputs[0].shape.rank()))),
              {picked(row_major_strides(request.inputs[0].shape),
                      kept_dims(request.attrs, names, request.inputs[0].shape.rank()))
                   .data(),
               picked(row_major_strides(windows), request.attrs.get<Dims>(names.window_dims)).data()}),
      fill_(request.attrs.get<std::string>("mode") == "fill") {
  const Shape& operand = request.inputs[0].shape;
  const Shape& indices = request.inputs[1].shape;
  const Dims operand_strides = row_major_strides(operand);
  const Dims windows_strides = row_major_strides(windows);
  const Dims& window_dims = request.attrs.get<Dims>(names.window_dims);
  for (std::int64_t d = 0; d < windows.rank(); ++d) {
    if (contains(window_dims, d)) continue;
    const std::int64_t extent = indices[static_cast<int>(batch_.size())];
    batch_.push_back({extent, windows_strides[static_cast<std::size_t>(d)], 0});
    vectors_ *= extent;
  }
  const Dims& operand_batching = request.attrs.get<Dims>(names.operand_batching);
  const Dims& indices_batching = request.attrs.get<Dims>(names.indices_batching);
  for (std::size_t i = 0; i < operand_batching.size(); ++i) {
    batch_[static_cast<std::size_t>(indices_batching[i])].operand_stride =
        operand_strides[static_cast<std::size_t>(operand_batching[i])];
  }
  for (const std::int64_t dim : request.attrs.get<Dims>(names.index_map)) {
    const auto d = static_cast<std::size_t>(dim);
    components_.push_back({operand[static_cast<int>(dim)] - sizes[d], operand_strides[d]});
  }
  for (int d = 0; d < window_.rank; ++d) elements_ *= window_.extents[static_cast<std::size_t>(d)];
  columns_ = width_of_rows(operand.size());
  are_contiguous_ = find_whether_contiguous();
}

WindowMoves::Place WindowMoves::place_of(std::int64_t vector) const {
  Place place;
  for (std::size_t d = batch_.size(); d-- > 0 && vectors_ > 0;) {
    place.position[d] = vector % batch_[d].extent;
    vector /= batch_[d].extent;
    place.windows += place.position[d] * batch_[d].windows_stride;
    place.operand += place.position[d] * batch_[d].operand_stride;
  }
  return place;
}

void WindowMoves::read_starts(const ArrayView& indices, std::int64_t first, std::span<std::int64_t> starts) const {
  std::ranges::fill(starts, 0);
  with_integer(indices.dtype, [&]<class T>() {
    const std::int64_t count = std::ssize(components_);
    const T* numbers = static_cast<const T*>(indices.data) + first * count;
    for (const Component& component : components_) {
      const T* number = numbers++;
      for (std::int64_t& start : starts) {
        const bool is_beyond = std::cmp_greater(*number, component.last), is_before = std::cmp_less(*number, 0);
        const std::int64_t at = is_before ? 0 : is_beyond ? component.last : static_cast<std::int64_t>(*number);
        start += fill_ && (is_before || is_beyond) ? left_out : at * component.operand_stride;
        number += count;
      }
    }
  });
}

bool WindowMoves::find_whether_contiguous() const {
  if (window_.rank != 1 || (elements_ > 1 && (window_.strides[0][0] != 1 || window_.strides[1][0] != 1))) return false;
  std::int64_t expected = elements_;
  for (std::size_t d = batch_.size(); d-- > 0; expected *= batch_[d].extent) {
    if (batch_[d].operand_stride != 0 || (batch_[d].extent > 1 && batch_[d].windows_stride != expected)) return false;
  }
  return true;
}

std::int64_t WindowMoves::width_of_rows(std::int64_t operand_size) const {
  const auto inner = static_cast<std::size_t>(window_.rank - 1);
  const std::int64_t width = window_.extents[inner];
  if (width == 0 || window_.strides[0][inner] != 1 || operand_size % width != 0) return 1;
  const auto is_whole = [&](std::int64_t stride) { return stride % width == 0; };
  const auto& strides = window_.strides[0];
  const bool rows = std::all_of(strides.begin(), strides.begin() + window_.rank - 1, is_whole) &&
                    std::ranges::all_of(batch_, is_whole, &Batch::operand_stride) &&
                    std::ranges::all_of(components_, [&](const Component& component) {
                      return component.last == 0 || is_whole(component.operand_stride);
                    });
  return rows ? width : 1;
}

}  // namespace lockstep::backend::cpu
