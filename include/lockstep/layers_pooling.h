#pragma once

#include <cstdint>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/layers_convolution.h>
#include <lockstep/model.h>
#include <lockstep/ops.h>

// Poolings and changes of resolution, channels last.
namespace lockstep {

/// Options of the poolings; pairs are (height, width).
struct Pool2dOptions {
  std::pair<std::int64_t, std::int64_t> window = {2, 2};
  std::pair<std::int64_t, std::int64_t> strides = {0, 0};  ///< 0: the window.
  Padding padding = Padding::valid;
};
/// The largest element of windows that do not overlap, x[N, H, W, C] -> [N, H', W', C]; what fills no window is left
/// out.
LOCKSTEP_API Array max_pool2d(const ArrayOperand& x, std::pair<std::int64_t, std::int64_t> window);
/// With strides and padding; padding is never the largest.
LOCKSTEP_API Array max_pool2d(const ArrayOperand& x, const Pool2dOptions& options);
/// The mean of windows that do not overlap. Elements outside the image count in neither sum nor divisor, here and
/// below.
LOCKSTEP_API Array avg_pool2d(const ArrayOperand& x, std::pair<std::int64_t, std::int64_t> window);
/// With strides and padding.
LOCKSTEP_API Array avg_pool2d(const ArrayOperand& x, const Pool2dOptions& options);
/// [N, H, W, C] -> [N, C].
LOCKSTEP_API Array global_avg_pool2d(const ArrayOperand& x);

// Of any number of spatial dimensions: x [N, spatial..., C], here and below. max_pool, min_pool, avg_pool and sum_pool
// of convolution.h have windows over these. All throw ShapeError for other inputs.
LOCKSTEP_API Array global_avg_pool(const ArrayOperand& x);  ///< The mean over all places, [N, C].
LOCKSTEP_API Array global_max_pool(const ArrayOperand& x);  ///< The largest over all places, [N, C].
/// As many means a spatial dimension as `extents` says: window i of n goes from floor(i s / n) up to ceil((i + 1) s /
/// n) of s places (PyTorch's). Throws ValueError for an extent below 1.
LOCKSTEP_API Array adaptive_avg_pool(const ArrayOperand& x, const Axes& extents);
LOCKSTEP_API Array adaptive_max_pool(const ArrayOperand& x, const Axes& extents);  ///< The largest element of each.

/// Each place repeated that often along each spatial dimension. Throws ValueError for a factor below 1.
LOCKSTEP_API Array upsample(const ArrayOperand& x, const Axes& factors);

/// How `resize` takes values between places.
enum class Interpolation : std::uint8_t {
  nearest,  ///< The place at floor((i + 1/2) s / n).
  linear,   ///< Between two neighbours, a triangle's weights.
  cubic     ///< Keys' cubic of four neighbours, a = -1/2. Keys 1981.
};
/// Spatial dimensions resampled to n places each, whose middles lie evenly (half-pixel centers), as jax.image.resize:
/// smaller results are smoothed over all that they stand for, unless `antialias` is false. Throws ValueError for an
/// extent below 1.
LOCKSTEP_API Array resize(const ArrayOperand& x, const Axes& extents, Interpolation method = Interpolation::linear,
                          bool antialias = true);

}  // namespace lockstep
