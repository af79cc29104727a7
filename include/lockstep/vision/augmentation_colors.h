#pragma once

#include <cstdint>

#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/sources.h>

/// Changes of an image's colours, contrast and sharpness, for map_rows: [height, width, channels] of uint8, whose white
/// is 255, or float32, whose white is 1. Computed in float32, as Keras' layers; of uint8 the result is rounded. NaN
/// stays NaN. What is drawn comes from the key: fold_in another number for each change. All throw ShapeError for another
/// rank, DtypeError for another dtype, ValueError for arguments outside of their range.
namespace lockstep::data {

/// What a number is drawn from: [low, high), evenly; low where they are equal.
struct Range {
  double low = 0;
  double high = 0;
};

/// Values plus delta times white, held between black and white. delta is -1 (all black) to 1 (all white).
LOCKSTEP_API HostTable adjust_brightness(const HostTable& image, double delta);
LOCKSTEP_API HostTable random_brightness(const HostTable& image, Range delta, const RowKey& key);  ///< Drawn.
/// (value - mean) * factor + mean, with the mean of each channel, held between black and white; factor is at least 0.
LOCKSTEP_API HostTable adjust_contrast(const HostTable& image, double factor);
/// The factor is drawn; Keras' RandomContrast(f) is {1 - f, 1 + f}.
LOCKSTEP_API HostTable random_contrast(const HostTable& image, Range factor, const RowKey& key);
/// Saturations of three channels, in HSV, times a factor of at least 0, and at most 1.
LOCKSTEP_API HostTable adjust_saturation(const HostTable& image, double factor);
/// With s drawn between 0 (grey) and 1 (full colours), saturations times s / (1 - s): 1/2 leaves them.
LOCKSTEP_API HostTable random_saturation(const HostTable& image, Range s, const RowKey& key);
/// Hues of three channels, in HSV, turned by that part of the circle, -1 to 1.
LOCKSTEP_API HostTable adjust_hue(const HostTable& image, double turn);
/// Turned to either side by half of what is drawn, of 0 to 1.
LOCKSTEP_API HostTable random_hue(const HostTable& image, Range factor, const RowKey& key);
/// A mixture of the image (share 0) and its grey values (share 1), 0.2989 red + 0.5870 green + 0.1140 blue, in all of
/// its channels. An image of one channel stays.
LOCKSTEP_API HostTable fade_colors(const HostTable& image, double share);
LOCKSTEP_API HostTable random_color_degeneration(const HostTable& image, Range share, const RowKey& key);  ///< Drawn.
/// Grey values in all channels with probability p.
LOCKSTEP_API HostTable random_grayscale(const HostTable& image, const RowKey& key, double p = 0.5);

/// What random_color_jitter draws, each as the function of that name does; the defaults change nothing.
struct ColorJitter {
  Range brightness = {0, 0};
  Range contrast = {1, 1};
  Range saturation = {0.5, 0.5};
  Range hue = {0, 0};
};
/// Brightness, contrast, saturation and hue changed one after the other, by what is drawn for each. An image of one
/// channel has no saturation and no hue.
LOCKSTEP_API HostTable random_color_jitter(const HostTable& image, const ColorJitter& jitter, const RowKey& key);

/// White less the value.
LOCKSTEP_API HostTable invert(const HostTable& image);
LOCKSTEP_API HostTable random_invert(const HostTable& image, const RowKey& key,
                                     double p = 0.5);  ///< With probability p.
/// The first `bits` bits of each value, 1 to 8, the others 0; float32 has 8 bits too.
LOCKSTEP_API HostTable posterize(const HostTable& image, int bits);
/// From `least` to `most` bits, both of which may be drawn.
LOCKSTEP_API HostTable random_posterization(const HostTable& image, int least, int most, const RowKey& key);
/// `addition` is added to each value, which then is inverted unless it is below `threshold`: both are parts of white, 0
/// to 1.
LOCKSTEP_API HostTable solarize(const HostTable& image, double threshold = 0, double addition = 0);
LOCKSTEP_API HostTable random_solarization(const HostTable& image, Range threshold, Range addition,
                                           const RowKey& key);  ///< Both drawn.

/// Each channel stretched so that its least value is black and its largest white. One of a single value stays.
LOCKSTEP_API HostTable auto_contrast(const HostTable& image);
/// Each channel's values replaced by how many of its pixels lie below them, in so many bins: all are about as frequent.
/// A channel in one bin stays. float32 comes in parts of 255. `bins` is at least 2.
LOCKSTEP_API HostTable equalize(const HostTable& image, int bins = 256);
/// What equalize_adaptively does.
struct AdaptiveEqualization {
  std::int64_t rows = 8;  ///< The image is cut into so many tiles.
  std::int64_t columns = 8;
  double clip_limit = 4;  ///< No value counts more often than that times the mean of all 256; 0: as often as it is.
};
/// Equalization by the pixels around: by tiles, between whose middles results are interpolated, with limited contrast
/// (CLAHE; Zuiderveld 1994).
LOCKSTEP_API HostTable equalize_adaptively(const HostTable& image, const AdaptiveEqualization& options = {});

/// A mixture of the image (factor 1) and a smoothed one (factor 0), and beyond: 2 is sharper. Smoothed by the mean of 3 x
/// 3 pixels, the middle one five times, with zeros around; held between black and white.
LOCKSTEP_API HostTable adjust_sharpness(const HostTable& image, double factor);
/// Of what is drawn, 0 to 1, twice as much is the factor: 1/2 leaves the image.
LOCKSTEP_API HostTable random_sharpness(const HostTable& image, Range factor, const RowKey& key);
/// A window of odd extents, and the deviations of the Gaussian in it, in pixels.
struct BlurWindow {
  std::int64_t height = 3;
  std::int64_t width = 3;
  double vertical = 1;
  double horizontal = 1;
};
/// Each value replaced by a mean of those in the window around it, weighted by a Gaussian; zeros lie around the image.
LOCKSTEP_API HostTable gaussian_blur(const HostTable& image, const BlurWindow& window = {});
/// With probability p, by deviations that are drawn, one for each direction.
LOCKSTEP_API HostTable random_gaussian_blur(const HostTable& image, std::int64_t height, std::int64_t width,
                                            Range deviation, const RowKey& key, double p = 1);

}  // namespace lockstep::data
