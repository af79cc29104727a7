#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/backend.h>

#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/dims.h"
#include "backends/cpu/loop_nest.h"

namespace lockstep::backend::cpu {

/// The windows that gather and scatter move between an operand and an array of windows, both row-major.
class WindowMoves {
 public:
  /// Of a gather: `windows` is its result.
  static WindowMoves of_gather(const KernelRequest& request);
  /// Of a scatter: `windows` are its updates.
  static WindowMoves of_scatter(const KernelRequest& request);

  std::int64_t vectors() const { return vectors_; }
  /// Where the operand is rows, and all windows are of whole ones: their width, and 1 elsewhere. A column of such windows
  /// only ever meets the same column of the operand.
  std::int64_t columns() const { return columns_; }

  /// Whether each window is contiguous in both arrays, and they follow each other in theirs.
  bool are_contiguous() const { return are_contiguous_; }
  std::int64_t elements_of_window() const { return elements_; }

  /// Calls visit(index vector's number, offset in the operand that it says), in order; the offset is negative where mode
  /// fill leaves the window out.
  template <class Visit>
  void for_each_start(const ArrayView& indices, Range vectors, Visit visit) const {
    std::array<std::int64_t, 256> memory;
    for (std::int64_t first = vectors.first; first < vectors.last; first += std::ssize(memory)) {
      const std::span starts(memory.data(), std::min(memory.size(), static_cast<std::size_t>(vectors.last - first)));
      read_starts(indices, first, starts);
      std::int64_t vector = first;
      for (const std::int64_t start : starts) visit(vector++, start);
    }
  }

  /// Calls visit(offset in the operand, offset in the windows, elements, step in the operand, step in the windows) for
  /// every row of the windows of those index vectors, in row-major order; omit(offset in the windows, elements, step in
  /// the windows) where mode fill leaves the window out.
  template <class Visit, class Omit>
  void for_each_row(const ArrayView& indices, Range vectors, Visit visit, Omit omit) const {
    Place place = place_of(vectors.first);
    for_each_start(indices, vectors, [&](std::int64_t /*vector*/, std::int64_t start) {
      window_.for_each_row([&](const auto& offsets, std::int64_t n, const auto& steps) {
        const std::int64_t to = place.windows + offsets[1];
        if (start < 0) return omit(to, n, steps[1]);
        visit(start + place.operand + offsets[0], to, n, steps[0], steps[1]);
      });
      advance(place);
    });
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

  /// Where a window lies by what its index vector is, not by what it says.
  struct Place {
    std::array<std::int64_t, Shape::max_rank> position{};
    std::int64_t operand = 0, windows = 0;
  };

  Place place_of(std::int64_t vector) const;
  void advance(Place& place) const {
    for (std::size_t d = batch_.size(); d-- > 0;) {
      place.windows += batch_[d].windows_stride;
      place.operand += batch_[d].operand_stride;
      if (++place.position[d] < batch_[d].extent) return;
      place.windows -= batch_[d].windows_stride * batch_[d].extent;
      place.operand -= batch_[d].operand_stride * batch_[d].extent;
      place.position[d] = 0;
    }
  }
  /// Offsets in the operand that index vectors from `first` on say; -1 for what mode fill leaves out.
  void read_starts(const ArrayView& indices, std::int64_t first, std::span<std::int64_t> starts) const;
  std::int64_t width_of_rows(std::int64_t operand_size) const;
  bool find_whether_contiguous() const;

  LoopNest<2> window_;
  std::vector<Batch> batch_;
  std::vector<Component> components_;
  std::int64_t vectors_ = 1, columns_ = 1, elements_ = 1;
  bool are_contiguous_ = false;
  bool fill_ = false;
};

}  // namespace lockstep::backend::cpu
