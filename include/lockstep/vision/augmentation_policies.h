#pragma once

#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/sources.h>

/// Augmentations made of many, for map_rows: images [height, width, channels] of uint8 or float32, drawn from the key.
/// They choose among shears, translations and rotations (reflected at the edges), posterization, solarization, automatic
/// contrast, equalization, brightness, faded colours, contrast and sharpness, each by what it draws up to the magnitude
/// m, 0 to 1: shears of 0 to m, to either side; moves of -m to m of the extents; -m to m of a turn; 8 bits down to 8 m, at
/// least 1; thresholds and additions of 0 to m; brightness of -m to m; m of the way to grey; contrast times 1 - m to 1 + m;
/// Keras' sharpness of 0 to m. Colours are left alone in images without three channels. All throw ShapeError for another
/// rank and an image without a pixel, DtypeError for another dtype, ValueError for options outside of their range.
namespace lockstep::data {

/// What rand_augment does.
struct RandAugment {
  int count = 2;           ///< Changes, one after the other; the same may be drawn again.
  double magnitude = 0.5;  ///< Of each.
};
/// A few changes drawn among eleven (Cubuk, Zoph, Shlens, Le 2020).
LOCKSTEP_API HostTable rand_augment(const HostTable& image, const RowKey& key, const RandAugment& options = {});

/// What aug_mix does.
struct AugMix {
  int chains = 3;
  int depth =
      3;  ///< Of a chain; each of its places is left out with a probability of one in the number of choices + 1.
  double magnitude = 0.3;
  double alpha = 1;     ///< Of the distributions of weights: Dirichlet's of the chains, beta of the image.
  bool all_ops = true;  ///< false: without the last four, brightness, faded colours, contrast and sharpness.
};
/// A mixture of the image and of several chains of changes (Hendrycks and others 2020).
LOCKSTEP_API HostTable aug_mix(const HostTable& image, const RowKey& key, const AugMix& options = {});

}  // namespace lockstep::data
