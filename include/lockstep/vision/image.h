#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

// Images, and arrays of any rank, sampled at other places, as in jax.image and jax.scipy.ndimage. Element i of a dimension
// covers [i, i + 1), its middle is i + 1/2.
namespace lockstep::image {

/// By which neighbours a sample is made: the nearest one, the two around it, four of them by Keys' cubic kernel (a =
/// -1/2; Keys 1981), or 6 and 10 by Lanczos' kernel.
enum class ResizeMethod : std::uint8_t { nearest, linear, cubic, lanczos3, lanczos5 };

/// x resized to `shape`, dimension by dimension; extents that stay are left alone. Where a dimension shrinks, `antialias`
/// widens the kernel by as much, so that no frequency is taken for another. Weights of a sample that reaches beyond the
/// edge are divided by their sum. `nearest` takes elements as they are, of any dtype; else integers become float32.
/// Throws ShapeError for another rank, and for an empty dimension that grows. (jax.image.resize)
LOCKSTEP_API Array resize(const ArrayOperand& x, const Shape& shape, ResizeMethod method, bool antialias = true);

/// Output element i of dimension dims[d] is x at (i + 1/2 - translation[d]) / scale[d] - 1/2; where that lies outside of
/// x it is 0. scale and translation are vectors with an element for each of `dims`, both differentiable. Other
/// dimensions stay. Throws ShapeError where shapes do not fit, ValueError for method nearest. (jax.image.
/// scale_and_translate)
LOCKSTEP_API Array scale_and_translate(const ArrayOperand& x, const Shape& shape, const Axes& dims,
                                       const ArrayOperand& scale, const ArrayOperand& translation, ResizeMethod method,
                                       bool antialias = true);

/// What stands outside of an array: `cval`, the nearest element, the array again (wrap), or its mirror image without
/// (mirror) and with the edge repeated (reflect).
enum class Outside : std::uint8_t { constant, nearest, wrap, mirror, reflect };
/// How map_coordinates interpolates.
struct MapOptions {
  int order = 1;  ///< 0: the nearest element, halves away from zero; 1: linear.
  Outside outside = Outside::constant;
  double cval = 0;
};
/// x at coordinates, one array for each dimension, of one shape, which is the result's: in the dtype of x, integers
/// rounded. Differentiable in x and, of order 1, in the coordinates. Throws ShapeError unless there are as many arrays
/// as dimensions, ValueError for another order. (jax.scipy.ndimage.map_coordinates)
LOCKSTEP_API Array map_coordinates(const ArrayOperand& x, const ArrayOperands& coordinates,
                                   const MapOptions& options = {});

// Images [H, W, C] or batches of them, [N, H, W, C], read between their pixels, whose middles have whole numbers: x to
// the right, y down. All are differentiable in the image and, of order 1, in the numbers that say where; all throw
// ShapeError for another rank, for an image without a pixel, and for numbers that do not fit it.

/// The pixel (x, y) is that of the image at ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), k = c0 x + c1 y + 1, for
/// `transform` (a0, a1, a2, b0, b1, b2, c0, c1), of which the last two may be missing; each image of a batch may have
/// its own, [N, 8]. (keras.ops.image.affine_transform)
LOCKSTEP_API Array affine_transform(const ArrayOperand& x, const ArrayOperand& transform,
                                    const MapOptions& options = {});
/// As a plane is seen from elsewhere: what is at four points `from`, [4, 2] of (x, y) or [N, 4, 2], comes to the points
/// `to`. NaN where three of the latter lie on one line. (keras.ops.image.perspective_transform)
LOCKSTEP_API Array perspective_transform(const ArrayOperand& x, const ArrayOperand& from, const ArrayOperand& to,
                                         const MapOptions& options = {});
/// Each pixel is read at a place moved by alpha times a normal number times sigma, drawn for either direction and
/// smoothed by a Gaussian of deviation `sigma`: drawn anew for each image. Throws ValueError for sigma outside of 0 to
/// 10,000. (keras.ops.image.elastic_transform, which moves both directions alike)
LOCKSTEP_API Array elastic_transform(const ArrayOperand& key, const ArrayOperand& x, const Operand& alpha = 20.0,
                                     double sigma = 5, const MapOptions& options = {.outside = Outside::reflect});

}  // namespace lockstep::image
