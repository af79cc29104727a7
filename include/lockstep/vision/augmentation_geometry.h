#pragma once

#include <array>
#include <optional>

#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/sources.h>
#include <lockstep/vision/augmentation_colors.h>
#include <lockstep/vision/image.h>

/// Images turned, scaled and bent, for map_rows: [height, width, channels] of uint8 or float32. Each pixel of the result
/// is read at another place of the image, between its pixels, whose middles have whole numbers: x to the right, y down. A
/// mask of labels takes the same key as its image and order 0. All throw ShapeError for another rank and an image
/// without a pixel, DtypeError for another dtype, ValueError for arguments outside of their range.
namespace lockstep::data {

/// How pixels are read.
struct Resampling {
  int order = 1;  ///< 0: the nearest pixel; 1: linear between four.
  image::Outside outside = image::Outside::reflect;
  double fill = 0;  ///< The value outside, with Outside::constant.
};

/// The pixel (x, y) is that of the image at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]).
LOCKSTEP_API HostTable affine_transform(const HostTable& image, const std::array<double, 6>& m,
                                        const Resampling& how = {});
/// Counterclockwise around the middle by that part of a full turn.
LOCKSTEP_API HostTable rotate(const HostTable& image, double turn, const Resampling& how = {});
LOCKSTEP_API HostTable random_rotation(const HostTable& image, Range turn, const RowKey& key,
                                       const Resampling& how = {});  ///< Drawn.
/// The middle, `height` and `width` times as large as the image, above 0: above 1 the image becomes smaller, and what is
/// around it is seen.
LOCKSTEP_API HostTable zoom(const HostTable& image, double height, double width, const Resampling& how = {});
/// Zoomed by 1 + what is drawn, between -1 and 1. Without a range for the width, it goes with the height.
LOCKSTEP_API HostTable random_zoom(const HostTable& image, Range height, const RowKey& key,
                                   std::optional<Range> width = {}, const Resampling& how = {});
/// The pixel (x, y) is that at (x + horizontal y, vertical x + y).
LOCKSTEP_API HostTable shear(const HostTable& image, double horizontal, double vertical, const Resampling& how = {});
/// Drawn, -1 to 1, and to one side or the other.
LOCKSTEP_API HostTable random_shear(const HostTable& image, Range horizontal, Range vertical, const RowKey& key,
                                    const Resampling& how = {});
/// Moved down and to the right by what is drawn, -1 to 1, times the image's extent. random_shift moves by whole pixels.
LOCKSTEP_API HostTable random_translation(const HostTable& image, Range height, Range width, const RowKey& key,
                                          const Resampling& how = {});

/// Four points (x, y).
using Corners = std::array<std::array<double, 2>, 4>;
/// As a plane is seen from elsewhere: what is at the points `from` of the image comes to the points `to`. Throws
/// ValueError where three of the latter lie on one line.
LOCKSTEP_API HostTable perspective_transform(const HostTable& image, const Corners& from, const Corners& to,
                                             const Resampling& how = {1, image::Outside::constant});
/// With probability p each corner is moved by up to scale / 2 of the image's extent, scale being 0 to 1 (0.9 at the most
/// keeps the corners apart; Keras moves three of them).
LOCKSTEP_API HostTable random_perspective(const HostTable& image, double scale, const RowKey& key, double p = 1,
                                          const Resampling& how = {1, image::Outside::constant});
/// Each pixel is read at a place that is moved by `alpha` times a normal number times `sigma`, drawn for either direction
/// and smoothed by a Gaussian of deviation `sigma`, above 0 (Simard, Steinkraus, Platt 2003).
LOCKSTEP_API HostTable elastic_transform(const HostTable& image, double alpha, double sigma, const RowKey& key,
                                         const Resampling& how = {});
/// With probability p, by alpha = 0.1 s max(height, width) and sigma = 0.05 s min(height, width), where s is drawn, 0 to
/// 1. Held between black and white.
LOCKSTEP_API HostTable random_elastic_transform(const HostTable& image, Range scale, const RowKey& key, double p = 1,
                                                const Resampling& how = {});

}  // namespace lockstep::data
