#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// A convolution along one of its dimensions: extents, and padding before x.
struct Side {
  std::int64_t x = 1, y = 1, window = 1, stride = 1, dilation = 1, low = 0;

  std::int64_t reach() const { return (window - 1) * dilation; }
};

/// A convolution of the family, whichever of its three arrays is the result.
struct ConvolutionGeometry {
  Shape x, kernel, y;
  std::vector<std::int64_t> strides, dilation, low, high;
  std::int64_t groups = 1;

  explicit ConvolutionGeometry(const KernelRequest& request);

  int spatial_rank() const { return x.rank() - 2; }
  /// Along a spatial dimension, or before the first, where all extents are 1.
  Side side(int dim) const;
  /// Whether any window is not next to the one before.
  bool is_strided() const;
  /// Whether each channel of x is a group, of several.
  bool is_depthwise() const { return groups > 1 && groups == x.dim(-1); }
  /// Places of a window.
  std::int64_t window_size() const { return kernel.size() / (kernel.dim(-2) * kernel.dim(-1)); }
};

}  // namespace lockstep::backend::cpu
