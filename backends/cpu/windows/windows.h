#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/backend/round_up.h>
#include <lockstep/types.h>

namespace lockstep::backend::cpu {

/// Windows over the planes of x [N, spatial..., C]; y [N, out..., C] has one element a window.
struct Windows {
  using Dims = std::vector<std::int64_t>;
  using Index = std::array<std::int64_t, Shape::max_rank>;

  std::int64_t batch, features;
  Shape in, out;
  Dims window, strides, dilation, low;

  Windows(const Shape& x, const Shape& y, const Attrs& attrs)
      : batch(x[0]),
        features(x.dim(-1)),
        in(spatial_of(x)),
        out(spatial_of(y)),
        window(attrs.get<Dims>("window")),
        strides(attrs.get<Dims>("strides")),
        dilation(attrs.get_or<Dims>("dilation", Dims(strides.size(), 1))) {
    for (const Dims& pair : attrs.get<std::vector<Dims>>("padding")) low.push_back(pair[0]);
  }

  /// Windows that lie next to each other and have these extents; x is not smaller than they are together.
  Windows(const Shape& x, const Shape& y, Dims extents)
      : batch(x[0]),
        features(x.dim(-1)),
        in(spatial_of(x)),
        out(spatial_of(y)),
        window(extents),
        strides(std::move(extents)),
        dilation(strides.size(), 1),
        low(strides.size(), 0) {}

  static Shape spatial_of(const Shape& shape) { return Shape(Dims(shape.begin() + 1, shape.end() - 1)); }

  /// Elements of the plane that a window holds at most.
  std::int64_t taps() const { return Shape(window).size(); }

  /// Calls visit(row of out, its index) for every window of a plane, row-major.
  template <class Visit>
  void for_each_window(Visit visit) const {
    Index o{};
    const std::int64_t rows = out.size();
    for (std::int64_t row = 0; row < rows; ++row, advance(o)) visit(row, o);
  }

  /// Calls visit(position in the plane) for every element of window `o` that the plane has, row-major.
  template <class Visit>
  void for_each_in_window(const Index& o, Visit visit) const {
    Index begin, end, at;
    const int last = in.rank() - 1;
    for (int d = 0; d <= last; ++d) {
      const auto k = static_cast<std::size_t>(d);
      const std::int64_t first = o[k] * strides[k] - low[k];
      // The first of the window's elements that is not before the array.
      begin[k] = first >= 0 ? first : first + round_up(-first, dilation[k]);
      end[k] = std::min(first + (window[k] - 1) * dilation[k] + 1, in[d]);
      if (begin[k] >= end[k]) return;
      at[k] = begin[k];
    }
    while (true) {
      std::int64_t position = 0;
      for (int d = 0; d <= last; ++d) position = position * in[d] + at[static_cast<std::size_t>(d)];
      const auto inner = static_cast<std::size_t>(last);
      for (std::int64_t i = begin[inner]; i < end[inner]; i += dilation[inner], position += dilation[inner]) {
        visit(position);
      }
      int d = last - 1;
      for (; d >= 0; --d) {
        const auto k = static_cast<std::size_t>(d);
        if ((at[k] += dilation[k]) < end[k]) break;
        at[k] = begin[k];
      }
      if (d < 0) return;
    }
  }

  /// Calls visit(x row, y row) for every window and every element of the plane in it; windows row-major, then elements
  /// row-major. Rows are those of [N * plane, C].
  template <class Visit>
  void for_each_pair(Visit visit) const {
    const std::int64_t in_plane = in.size();
    const std::int64_t out_plane = out.size();
    for (std::int64_t n = 0; n < batch; ++n) {
      for_each_window([&](std::int64_t row, const Index& o) {
        for_each_in_window(o, [&](std::int64_t position) { visit(n * in_plane + position, n * out_plane + row); });
      });
    }
  }

 private:
  void advance(Index& o) const {
    for (int d = out.rank() - 1; d >= 0; --d) {
      if (++o[static_cast<std::size_t>(d)] < out[d]) return;
      o[static_cast<std::size_t>(d)] = 0;
    }
  }
};

}  // namespace lockstep::backend::cpu
