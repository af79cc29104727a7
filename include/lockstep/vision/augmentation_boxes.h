#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/sources.h>
#include <lockstep/vision/augmentation_colors.h>
#include <lockstep/vision/bounding_boxes.h>

/// Boxes that move with their image: each function is the one of that name that changes images (vision/augmentation.h,
/// vision/augmentation_geometry.h), with the same arguments and, where it draws, the same key; so are its errors. A box becomes
/// the one around what the image's function makes of its four corners, a pixel being a square around its middle, and is
/// then held inside of the image. One of which nothing is left inside gets the label -1, as in Keras; a label below 0 is
/// one of a box that is not there (limit_boxes), which stays as it is. Throw ShapeError unless boxes are [n, 4] and labels
/// [n], DtypeError unless they are float32, and int32 or float32, ValueError for images without extents.
namespace lockstep::data {

/// An image's boxes, their labels, and how large the image is.
struct ImageBoxes {
  HostTable boxes;   ///< float32 [n, 4], in `format`.
  HostTable labels;  ///< int32 or float32 [n].
  std::int64_t height = 0;
  std::int64_t width = 0;  ///< Of the image, which change where it is cut or resized.
  bounding_boxes::Format format = bounding_boxes::Format::xyxy;
};

/// In the window [top, top + height) x [left, left + width).
LOCKSTEP_API ImageBoxes crop(const ImageBoxes& of, std::int64_t top, std::int64_t left, std::int64_t height,
                             std::int64_t width);
/// In the window that the image gets.
LOCKSTEP_API ImageBoxes random_crop(const ImageBoxes& of, std::int64_t height, std::int64_t width, std::int64_t padding,
                                    const RowKey& key);
/// Mirrored where the image is.
LOCKSTEP_API ImageBoxes random_flip(const ImageBoxes& of, const RowKey& key, double p = 0.5);
/// Moved by as many pixels.
LOCKSTEP_API ImageBoxes random_shift(const ImageBoxes& of, std::int64_t most, const RowKey& key);
/// In an image of another size.
LOCKSTEP_API ImageBoxes resize(const ImageBoxes& of, std::int64_t height, std::int64_t width);

/// Where the image's pixel (x, y) is read at m. Throws ValueError for an m that reads all on one line.
LOCKSTEP_API ImageBoxes affine_transform(const ImageBoxes& of, const std::array<double, 6>& m);
/// Turned counterclockwise.
LOCKSTEP_API ImageBoxes rotate(const ImageBoxes& of, double turn);
/// Turned by what is drawn.
LOCKSTEP_API ImageBoxes random_rotation(const ImageBoxes& of, Range turn, const RowKey& key);
/// Scaled around the middle.
LOCKSTEP_API ImageBoxes zoom(const ImageBoxes& of, double height, double width);
/// Scaled by what is drawn.
LOCKSTEP_API ImageBoxes random_zoom(const ImageBoxes& of, Range height, const RowKey& key,
                                    std::optional<Range> width = {});
/// Sheared.
LOCKSTEP_API ImageBoxes shear(const ImageBoxes& of, double horizontal, double vertical);
/// Sheared by what is drawn.
LOCKSTEP_API ImageBoxes random_shear(const ImageBoxes& of, Range horizontal, Range vertical, const RowKey& key);
/// Moved by what is drawn, in parts of the image's extents.
LOCKSTEP_API ImageBoxes random_translation(const ImageBoxes& of, Range height, Range width, const RowKey& key);

/// Those whose label is not below 0.
LOCKSTEP_API ImageBoxes without_empty_boxes(const ImageBoxes& of);

}  // namespace lockstep::data
