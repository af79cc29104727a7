#pragma once

#include <cstdint>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

// Colours of images, means and edges around each pixel, and how alike two images are: arrays [..., H, W, C]. Integers
// become float32. (keras.ops.image)
namespace lockstep::image {

/// 0.2989 red + 0.5870 green + 0.1140 blue, [..., 1], in the dtype of x: integers are cut off, as Keras' are. One channel
/// stays. Throws ShapeError for other numbers of channels.
LOCKSTEP_API Array rgb_to_grayscale(const ArrayOperand& x);
/// Hue, saturation and value of red, green and blue, all of 0 to 1, in the last dimension. Throws ShapeError unless there
/// are three, DtypeError for what are no floats.
LOCKSTEP_API Array rgb_to_hsv(const ArrayOperand& x);
/// The other way; a hue is taken modulo 1. Throws likewise.
LOCKSTEP_API Array hsv_to_rgb(const ArrayOperand& x);

/// Each channel's values replaced by a mean of those in a window around them, weighted by a Gaussian with a deviation
/// for either direction, in pixels; zeros lie around the image. Differentiable in the deviations, too. Throws ShapeError
/// below rank 3, ValueError for a window (height, width) that is not odd.
LOCKSTEP_API Array gaussian_blur(const ArrayOperand& x, std::pair<std::int64_t, std::int64_t> window = {3, 3},
                                 const Operand& vertical = 1.0, const Operand& horizontal = 1.0);
/// Derivatives downwards and to the right by Sobel's kernels, [..., H, W, C, 2]; zeros lie around the image. Throws
/// ShapeError below rank 3.
LOCKSTEP_API Array sobel_edges(const ArrayOperand& x);

/// What ssim compares by.
struct SsimOptions {
  double max_value = 1;      ///< White.
  std::int64_t window = 11;  ///< Its extent, which is odd.
  double deviation = 1.5;    ///< Of the Gaussian in it.
  double k1 = 0.01;
  double k2 = 0.03;
};
/// How alike two images are to the eye, [...]: 1 for equal ones, down to -1; means, variances and covariances of windows
/// that lie inside (Wang, Bovik, Sheikh, Simoncelli 2004). Throws ShapeError for other shapes of a and b, below rank 3
/// and for images smaller than the window, ValueError for a window that is not odd and a deviation of 0.
LOCKSTEP_API Array ssim(const ArrayOperand& a, const ArrayOperand& b, const SsimOptions& options = {});
/// The ratio of the largest value to the mean square of the differences, in decibels; infinite for equal arrays. Of all
/// elements together: vmap it over a batch. Throws ShapeError for other shapes.
LOCKSTEP_API Array psnr(const ArrayOperand& a, const ArrayOperand& b, const Operand& max_value = 1.0);

// ---- mixtures of two examples: of a whole batch, before it is cut for devices, so that bits depend on the key alone.

/// Each image of [N, ...] becomes w times itself and 1 - w times another one of the batch, drawn, and so do the labels,
/// [N, classes], floats such as one_hot gives; w is drawn of beta(alpha, alpha) for each. Returns both. Throws
/// ShapeError for other ranks and numbers of rows, DtypeError for labels that are no floats, ValueError for alpha <= 0.
/// (Zhang, Cisse, Dauphin, Lopez-Paz 2018)
LOCKSTEP_API std::pair<Array, Array> mix_up(const ArrayOperand& key, const ArrayOperand& images,
                                            const ArrayOperand& labels, double alpha = 0.2);
/// A rectangle of each image of [N, H, W, C] comes from another one of the batch: its area is a part 1 - w of the image,
/// w of beta(alpha, alpha), its place is drawn. Labels are mixed by how many pixels come from either. Returns both, and
/// throws as mix_up does. (Yun and others 2019)
LOCKSTEP_API std::pair<Array, Array> cut_mix(const ArrayOperand& key, const ArrayOperand& images,
                                             const ArrayOperand& labels, double alpha = 1);

}  // namespace lockstep::image
