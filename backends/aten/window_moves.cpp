#include "backends/aten/window_moves.h"

#include <string>

#include "backends/aten/moves.h"

namespace lockstep::backends::aten {

namespace {

using Dims = WindowMoves::Dims;

bool contains(const Dims& dims, std::int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

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
}

bool WindowMoves::start(const ArrayView& indices, std::int64_t vector,
                        const std::array<std::int64_t, Shape::max_rank>& position, std::int64_t& offset) const {
  for (std::size_t d = 0; d < batch_.size(); ++d) offset += position[d] * batch_[d].operand_stride;
  std::int64_t i = vector * static_cast<std::int64_t>(components_.size());
  for (const Component& component : components_) {
    const std::int64_t number = integer_at(indices, i++);
    if (fill_ && (number < 0 || number > component.last)) return false;
    offset += std::clamp<std::int64_t>(number, 0, component.last) * component.operand_stride;
  }
  return true;
}

}  // namespace lockstep::backends::aten
