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

}  // namespace lockstep::image
