#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

// Boxes around things in images, with Keras' names and formats: the four numbers of each are the last dimension of an
// array [..., 4]; integers become float32. All throw ShapeError unless it has four, and are differentiable.
// (keras.utils.bounding_boxes)
namespace lockstep::bounding_boxes {

/// What the four numbers are, in pixels: two corners (left, top, right, bottom) in either order of x and y, a corner and
/// extents, or the middle and extents. With rel, parts of the image's extents.
enum class Format : std::uint8_t {
  xyxy,
  yxyx,
  xywh,
  center_xywh,
  center_yxhw,
  rel_xyxy,
  rel_yxyx,
  rel_xywh,
  rel_center_xywh
};
/// The image's extents, in pixels.
struct ImageSize {
  double height = 0;
  double width = 0;
};

/// The same boxes in another format. Throws ValueError between parts and pixels without the image's size.
LOCKSTEP_API Array convert_format(const ArrayOperand& boxes, Format from, Format to,
                                  const std::optional<ImageSize>& image = {});

/// How boxes are compared.
struct IouOptions {
  Format format = Format::xyxy;
  std::optional<ImageSize> image = {};  ///< For formats of parts.
  /// Boxes whose numbers are all below 0 stand for none, and give `mask_value` with every other.
  bool use_masking = false;
  double mask_value = -1;
};
/// The area that two boxes share over the area of both together (less 1e-7), for each box of a [..., M, 4] with each of b
/// [..., N, 4]: [..., M, N]. Leading dimensions broadcast. Throws ShapeError below rank 2.
LOCKSTEP_API Array compute_iou(const ArrayOperand& a, const ArrayOperand& b, const IouOptions& options = {});
/// That of pairs, [..., 4] and [..., 4] give [...], less what their middles are apart and how their shapes differ: 1 less
/// it is a loss that has a slope where boxes do not meet (CIoU; Zheng and others 2020). Not masked; throws ValueError for
/// a format of parts, whose shapes depend on the image.
LOCKSTEP_API Array compute_ciou(const ArrayOperand& a, const ArrayOperand& b, Format format = Format::xyxy);

/// Corners held inside the image, of Format::xyxy or rel_xyxy, for another of which it throws ValueError.
LOCKSTEP_API Array clip_to_image_size(const ArrayOperand& boxes, const ImageSize& image, Format format = Format::xyxy);
/// With labels [...], which become -1 where no area is left. Throws ShapeError for other labels.
LOCKSTEP_API std::pair<Array, Array> clip_to_image_size(const ArrayOperand& boxes, const ArrayOperand& labels,
                                                        const ImageSize& image, Format format = Format::xyxy);

/// How boxes are said relative to anchors.
struct DeltaOptions {
  Format anchor_format = Format::xyxy;
  Format box_format = Format::xyxy;
  Format encoding = Format::center_yxhw;               ///< Or center_xywh: the order of a delta.
  std::optional<std::array<double, 4>> variance = {};  ///< What deltas are divided by.
  std::optional<ImageSize> image = {};                 ///< For formats of parts.
};
/// For each box and its anchor, [N, 4] and [N, 4] or [B, N, 4]: how far the middle is off, in extents of the anchor, and
/// the logarithms of the ratios of extents. Throws ValueError for another encoding.
LOCKSTEP_API Array encode_box_to_deltas(const ArrayOperand& anchors, const ArrayOperand& boxes,
                                        const DeltaOptions& options = {});
/// The other way.
LOCKSTEP_API Array decode_deltas_to_boxes(const ArrayOperand& anchors, const ArrayOperand& deltas,
                                          const DeltaOptions& options = {});

/// Corners (xyxy) in the window of the image that begins at (left, top), held inside of it.
LOCKSTEP_API Array crop(const ArrayOperand& boxes, const Operand& top, const Operand& left, const Operand& height,
                        const Operand& width);
/// Corners (xyxy) in an image with so many more rows above and columns to the left.
LOCKSTEP_API Array pad(const ArrayOperand& boxes, const Operand& top, const Operand& left);

/// The first `most` boxes of [..., n, 4] and labels of [..., n]; where there are fewer, `fill` stands for those that are
/// missing. Rows with any number of boxes are brought to one form by data::limit_boxes. Throws ShapeError for other
/// labels, ValueError for most < 0. (keras.layers.MaxNumBoundingBoxes)
LOCKSTEP_API std::pair<Array, Array> limit_number(const ArrayOperand& boxes, const ArrayOperand& labels,
                                                  std::int64_t most, std::int64_t fill = -1);

}  // namespace lockstep::bounding_boxes
