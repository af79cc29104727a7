#include <cstddef>
#include <cstdint>

#include "engine/ops/conv/geometry.h"

namespace lockstep::ops {

namespace {

/// Steps `index` through `extents` row-major; false after the last one.
bool advance(Dims& index, const Dims& extents) {
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

bool has_no_element(const Dims& extents) {
  for (const std::int64_t extent : extents) {
    if (extent == 0) return true;
  }
  return false;
}

std::int64_t flat(const Dims& index, const Dims& extents) {
  std::int64_t position = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) position = position * extents[d] + index[d];
  return position;
}

/// The input position under window element `w` of output position `o`; false inside the padding.
bool input_position(const ConvGeometry& g, const Dims& o, const Dims& w, Dims& position) {
  for (std::size_t d = 0; d < position.size(); ++d) {
    position[d] = o[d] * g.strides[d] + w[d] * g.dilation[d] - g.low[d];
    if (position[d] < 0 || position[d] >= g.in[d]) return false;
  }
  return true;
}

}  // namespace

void for_each_product(const ConvGeometry& g, const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) {
  if (g.batch == 0 || g.out_features == 0 || has_no_element(g.out) || has_no_element(g.window)) return;
  const std::int64_t group_in = g.in_features / g.groups;
  const std::int64_t group_out = g.out_features / g.groups;
  const std::int64_t in_plane = Shape(g.in).size();
  const std::int64_t out_plane = Shape(g.out).size();
  Dims position(g.in.size());
  for (std::int64_t n = 0; n < g.batch; ++n) {
    Dims o(g.out.size(), 0);
    do {
      const std::int64_t y_row = (n * out_plane + flat(o, g.out)) * g.out_features;
      for (std::int64_t f = 0; f < g.out_features; ++f) {
        Dims w(g.window.size(), 0);
        do {
          if (!input_position(g, o, w, position)) continue;
          const std::int64_t x_row = (n * in_plane + flat(position, g.in)) * g.in_features + f / group_out * group_in;
          const std::int64_t kernel_row = flat(w, g.window) * group_in;
          for (std::int64_t c = 0; c < group_in; ++c) {
            visit(static_cast<std::size_t>(x_row + c), static_cast<std::size_t>((kernel_row + c) * g.out_features + f),
                  static_cast<std::size_t>(y_row + f));
          }
        } while (advance(w, g.window));
      }
    } while (advance(o, g.out));
  }
}

}  // namespace lockstep::ops
