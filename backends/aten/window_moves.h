#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/backend.h>

#include "backends/aten/loop_nest.h"

namespace lockstep::backends::aten {

/// The windows that gather and scatter move between an operand and an array of windows, both row-major.
class WindowMoves {
 public:
  using Dims = std::vector<std::int64_t>;

  /// Of a gather: `windows` is its result.
  static WindowMoves of_gather(const KernelRequest& request);
  /// Of a scatter: `windows` are its updates.
  static WindowMoves of_scatter(const KernelRequest& request);

  /// Calls visit(offset in the operand, offset in the windows, elements, step in the operand, step in the windows) for
  /// every row of every window, index vectors in row-major order. Windows that mode fill leaves out are passed over.
  template <class Visit>
  void for_each_row(const ArrayView& indices, Visit visit) const {
    std::array<std::int64_t, Shape::max_rank> position{};
    std::int64_t to = 0;
    for (std::int64_t vector = 0; vector < vectors_; ++vector) {
      std::int64_t from = 0;
      if (start(indices, vector, position, from)) {
        window_.for_each_row([&](const auto& offsets, std::int64_t n, const auto& steps) {
          visit(from + offsets[0], to + offsets[1], n, steps[0], steps[1]);
        });
      }
      for (std::size_t d = batch_.size(); d-- > 0;) {
        to += batch_[d].windows_stride;
        if (++position[d] < batch_[d].extent) break;
        to -= batch_[d].windows_stride * batch_[d].extent;
        position[d] = 0;
      }
    }
  }

 private:
  /// A dimension of the indices but the last.
  struct Batch {
    std::int64_t extent, windows_stride, operand_stride;
  };
  /// A number of an index vector.
  struct Component {
    std::int64_t last, operand_stride;
  };
  struct Names {
    std::string_view window_dims, collapsed, index_map, operand_batching, indices_batching;
  };

  WindowMoves(const KernelRequest& request, const Names& names, const Shape& windows, const Dims& sizes);
  static Dims kept_dims(const Attrs& attrs, const Names& names, int rank);
  static const Names gather_names, scatter_names;

  bool start(const ArrayView& indices, std::int64_t vector, const std::array<std::int64_t, Shape::max_rank>& position,
             std::int64_t& offset) const;

  LoopNest<2> window_;
  std::vector<Batch> batch_;
  std::vector<Component> components_;
  std::int64_t vectors_ = 1;
  bool fill_ = false;
};

}  // namespace lockstep::backends::aten
