#include <algorithm>
#include <numbers>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/vision/bounding_boxes.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"

namespace lockstep::bounding_boxes {

namespace {

constexpr double epsilon = 1e-7;  // Keras' own

bool is_relative(Format format) { return format >= Format::rel_xyxy; }

std::string_view format_name(Format format) {
  constexpr std::string_view names[] = {"xyxy",     "yxyx",     "xywh",     "center_xywh",    "center_yxhw",
                                        "rel_xyxy", "rel_yxyx", "rel_xywh", "rel_center_xywh"};
  return names[static_cast<std::size_t>(format)];
}

/// Floats, with four numbers.
Array floats_of(std::string_view op, const Array& boxes) {
  if (boxes.ndim() == 0 || boxes.dim(-1) != 4) {
    throw ShapeError(
        fmt::format("{}: boxes are {}; expected four numbers in the last dimension", op, to_string(boxes.type())));
  }
  return convert(boxes, api::inexact(boxes.dtype()));
}

Array four_numbers(const Array& a, const Array& b, const Array& c, const Array& d) {
  return concatenate({a, b, c, d}, -1);
}

/// Left, top, right, bottom, each [..., 1].
struct Sides {
  Array left, top, right, bottom;
  Array width() const { return right - left; }
  Array height() const { return bottom - top; }
};

Sides sides_around(const Array& x, const Array& y, const Array& width, const Array& height) {
  return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
}

Sides sides_of(const Array& boxes, Format format) {
  const Arrays n = split(boxes, 4, -1);
  switch (format) {
    case Format::yxyx:
    case Format::rel_yxyx:
      return {n[1], n[0], n[3], n[2]};
    case Format::xywh:
    case Format::rel_xywh:
      return {n[0], n[1], n[0] + n[2], n[1] + n[3]};
    case Format::center_xywh:
    case Format::rel_center_xywh:
      return sides_around(n[0], n[1], n[2], n[3]);
    case Format::center_yxhw:
      return sides_around(n[1], n[0], n[3], n[2]);
    case Format::xyxy:
    case Format::rel_xyxy:
      break;
  }
  return {n[0], n[1], n[2], n[3]};
}

Array boxes_of(const Sides& s, Format format) {
  const auto across = [&] { return s.left + s.width() / 2; };
  const auto down = [&] { return s.top + s.height() / 2; };
  switch (format) {
    case Format::yxyx:
    case Format::rel_yxyx:
      return four_numbers(s.top, s.left, s.bottom, s.right);
    case Format::xywh:
    case Format::rel_xywh:
      return four_numbers(s.left, s.top, s.width(), s.height());
    case Format::center_xywh:
    case Format::rel_center_xywh:
      return four_numbers(across(), down(), s.width(), s.height());
    case Format::center_yxhw:
      return four_numbers(down(), across(), s.height(), s.width());
    case Format::xyxy:
    case Format::rel_xyxy:
      break;
  }
  return four_numbers(s.left, s.top, s.right, s.bottom);
}

/// Boxes in which areas are computed: those of pixels have no finite one in float16.
/// What is made of wide boxes, in the dtype that the given ones have in common.
Array narrowed(const Array& x, const Array& a, const Array& b) {
  return convert(x, api::inexact(promote(a.dtype(), b.dtype())));
}

Array area(const Sides& s) { return s.width() * s.height(); }

Array shared_area(const Sides& a, const Sides& b) {
  const Array width = maximum(minimum(a.right, b.right) - maximum(a.left, b.left), 0);
  return width * maximum(minimum(a.bottom, b.bottom) - maximum(a.top, b.top), 0);
}

void check_labels(std::string_view op, const Array& boxes, const Array& labels) {
  if (boxes.ndim() > 0 && labels.shape() == boxes.shape().erase(boxes.ndim() - 1)) return;
  throw ShapeError(fmt::format("bounding_boxes.{}: boxes are {}, labels {}; expected one label for each box", op,
                               to_string(boxes.type()), to_string(labels.type())));
}

void check_encoding(std::string_view op, Format encoding) {
  if (encoding == Format::center_yxhw || encoding == Format::center_xywh) return;
  throw ValueError(
      fmt::format("bounding_boxes.{}: encoding is {}; expected center_yxhw or center_xywh", op, format_name(encoding)));
}

Array variance_of(const DeltaOptions& options, DType dtype) {
  const std::array<double, 4>& v = *options.variance;
  return convert(array({v[0], v[1], v[2], v[3]}), dtype);
}

/// The first two of four numbers, and the last two.
std::pair<Array, Array> halves(const Array& boxes) {
  return {slice_in_dim(boxes, 0, 2, -1), slice_in_dim(boxes, 2, 4, -1)};
}

}  // namespace

Array convert_format(const ArrayOperand& boxes, Format from, Format to, const std::optional<ImageSize>& image) {
  const Array given = floats_of("bounding_boxes.convert_format", boxes);
  if (from == to) return given;
  Sides sides = sides_of(given, from);
  if (is_relative(from) != is_relative(to)) {
    if (!image) {
      throw ValueError(
          fmt::format("bounding_boxes.convert_format: from {} to {} takes the image's height and width; "
                      "give its size",
                      format_name(from), format_name(to)));
    }
    const auto [height, width] = *image;
    sides = is_relative(from)
                ? Sides{sides.left * width, sides.top * height, sides.right * width, sides.bottom * height}
                : Sides{sides.left / width, sides.top / height, sides.right / width, sides.bottom / height};
  }
  return boxes_of(sides, to);
}

Array compute_iou(const ArrayOperand& a, const ArrayOperand& b, const IouOptions& options) {
  const auto corners = [&](const Array& boxes) {
    if (boxes.ndim() < 2) {
      throw ShapeError(
          fmt::format("bounding_boxes.compute_iou: boxes are {}; expected [..., n, 4]", to_string(boxes.type())));
    }
    return convert_format(api::as_widened(boxes), options.format, Format::xyxy, options.image);
  };
  const Array first = expand_dims(corners(a), -2), second = expand_dims(corners(b), -3);
  const Sides of_first = sides_of(first, Format::xyxy), of_second = sides_of(second, Format::xyxy);
  const Array both = shared_area(of_first, of_second);
  const Array iou = both / (area(of_first) + area(of_second) - both + epsilon);
  if (!options.use_masking) return narrowed(squeeze(iou, Axes{-1}), a, b);
  const auto is_none = [](const Array& boxes) { return max(boxes, -1, true) < 0; };
  const Array masked = where(logical_or(is_none(first), is_none(second)), options.mask_value, iou);
  return narrowed(squeeze(masked, Axes{-1}), a, b);
}

Array compute_ciou(const ArrayOperand& a, const ArrayOperand& b, Format format) {
  if (is_relative(format)) {
    throw ValueError(
        fmt::format("bounding_boxes.compute_ciou: boxes are {}; convert them to pixels first", format_name(format)));
  }
  const Sides first = sides_of(convert_format(api::as_widened(a), format, Format::xyxy), Format::xyxy);
  const Sides second = sides_of(convert_format(api::as_widened(b), format, Format::xyxy), Format::xyxy);
  const Array height_1 = first.height() + epsilon, height_2 = second.height() + epsilon;
  const Array both = shared_area(first, second);
  const Array iou = both / (first.width() * height_1 + second.width() * height_2 - both + 2 * epsilon);
  const Array width = maximum(first.right, second.right) - minimum(first.left, second.left);
  const Array height = maximum(first.bottom, second.bottom) - minimum(first.top, second.top);
  const Array diagonal = square(width) + square(height) + epsilon;
  const Array apart = square((first.left + first.right) / 2 - (second.left + second.right) / 2) +
                      square((first.top + first.bottom) / 2 - (second.top + second.bottom) / 2);
  constexpr double pi = std::numbers::pi;
  const Array v = 4 / (pi * pi) * square(atan(second.width() / height_2) - atan(first.width() / height_1));
  const Array alpha = v / (v - iou + (1 + epsilon));
  return narrowed(squeeze(iou - (apart / diagonal + v * alpha), Axes{-1}), a, b);
}

Array clip_to_image_size(const ArrayOperand& boxes, const ImageSize& image, Format format) {
  if (format != Format::xyxy && format != Format::rel_xyxy) {
    throw ValueError(
        fmt::format("bounding_boxes.clip_to_image_size: boxes are {}; expected xyxy or rel_xyxy", format_name(format)));
  }
  const ImageSize size = format == Format::xyxy ? image : ImageSize{1, 1};
  const Sides s = sides_of(floats_of("bounding_boxes.clip_to_image_size", boxes), Format::xyxy);
  return four_numbers(clip(s.left, 0, size.width), clip(s.top, 0, size.height), clip(s.right, 0, size.width),
                      clip(s.bottom, 0, size.height));
}

std::pair<Array, Array> clip_to_image_size(const ArrayOperand& boxes, const ArrayOperand& labels,
                                           const ImageSize& image, Format format) {
  check_labels("clip_to_image_size", boxes, labels);
  const Array clipped = clip_to_image_size(boxes, image, format);
  const Array left = squeeze(area(sides_of(clipped, Format::xyxy)), Axes{-1});
  return {clipped, where(left > 0, labels, -1)};
}

Array encode_box_to_deltas(const ArrayOperand& anchors, const ArrayOperand& boxes, const DeltaOptions& options) {
  check_encoding("encode_box_to_deltas", options.encoding);
  const auto [anchor, anchor_size] =
      halves(convert_format(anchors, options.anchor_format, options.encoding, options.image));
  const auto [box, box_size] = halves(convert_format(boxes, options.box_format, options.encoding, options.image));
  const Array size = maximum(anchor_size, epsilon);
  const Array offset = (box - anchor) / size, ratio = log(maximum(box_size, epsilon) / size);
  const Array deltas = concatenate({offset, ratio}, -1);
  return options.variance ? deltas / variance_of(options, deltas.dtype()) : deltas;
}

Array decode_deltas_to_boxes(const ArrayOperand& anchors, const ArrayOperand& deltas, const DeltaOptions& options) {
  check_encoding("decode_deltas_to_boxes", options.encoding);
  const auto [anchor, size] = halves(convert_format(anchors, options.anchor_format, options.encoding, options.image));
  const Array given = floats_of("bounding_boxes.decode_deltas_to_boxes", deltas);
  const auto [offset, ratio] = halves(options.variance ? given * variance_of(options, given.dtype()) : given);
  const Array boxes = concatenate({offset * size + anchor, exp(ratio) * size}, -1);
  return convert_format(boxes, options.encoding, options.box_format, options.image);
}

Array crop(const ArrayOperand& boxes, const Operand& top, const Operand& left, const Operand& height,
           const Operand& width) {
  const Sides s = sides_of(floats_of("bounding_boxes.crop", boxes), Format::xyxy);
  return four_numbers(clip(s.left - left, 0, width), clip(s.top - top, 0, height), clip(s.right - left, 0, width),
                      clip(s.bottom - top, 0, height));
}

Array pad(const ArrayOperand& boxes, const Operand& top, const Operand& left) {
  const Sides s = sides_of(floats_of("bounding_boxes.pad", boxes), Format::xyxy);
  return four_numbers(s.left + left, s.top + top, s.right + left, s.bottom + top);
}

std::pair<Array, Array> limit_number(const ArrayOperand& boxes, const ArrayOperand& labels, std::int64_t most,
                                     std::int64_t fill) {
  const Array given = floats_of("bounding_boxes.limit_number", boxes);
  if (labels.ndim() == 0) {
    throw ShapeError(
        fmt::format("bounding_boxes.limit_number: labels are {}; expected [..., n]", to_string(labels.type())));
  }
  check_labels("limit_number", boxes, labels);
  if (most < 0) {
    throw ValueError(fmt::format("bounding_boxes.limit_number: most is {}; expected a number of boxes", most));
  }
  const std::int64_t count = labels.dim(-1), kept = std::min(count, most);
  const auto limited = [&](const Array& x, int axis) {
    const auto rank = static_cast<std::size_t>(x.ndim());
    Axes none(rank, 0), high(rank, 0);
    high[static_cast<std::size_t>(axis)] = most - kept;
    return lockstep::pad(slice_in_dim(x, 0, kept, axis), fill, none, high);
  };
  return {limited(given, given.ndim() - 2), limited(labels, labels.ndim() - 1)};
}

}  // namespace lockstep::bounding_boxes
