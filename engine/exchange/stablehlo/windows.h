#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/convolution.h>

#include "engine/exchange/stablehlo/importer.h"

namespace lockstep::exchange {

/// The windows of reduce_window and select_and_scatter: one entry a dimension in each list.
struct Windows {
  /// Reads the attributes of an op on arrays of this rank.
  Windows(const OpCall& call, int rank);

  Axes sizes, strides, base, window;
  std::vector<std::pair<std::int64_t, std::int64_t>> padding;

  ReduceWindowOptions options() const;
  std::int64_t elements() const;
  /// As many as there are windows.
  Shape result(const Shape& shape) const;
  bool has_padding() const;
  /// The axis along which each window ends (or, reversed, begins) at its own element and takes all before it.
  std::optional<std::pair<std::int64_t, bool>> cumulative(const Shape& shape) const;
  /// Whether each window holds an element that is neither padding nor a hole, and padding is narrower than a window.
  bool all_hold_elements(const Shape& shape) const;
  /// The first element of each window, the second, ..., in row-major order; padding and holes are `between`, a scalar.
  std::vector<Array> split(const Array& x, const Array& between) const;
};

}  // namespace lockstep::exchange
