#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/vision/augmentation_boxes.h>

#include "engine/vision/augmentation/drawn_geometry.h"
#include "engine/vision/augmentation/pixels.h"

namespace lockstep::data {
namespace {

using bounding_boxes::Format;

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

Extents extents_of(const ImageBoxes& of) { return {of.height, of.width, 1}; }

void check(const ImageBoxes& of, std::string_view who) {
  const Shape& shape = of.boxes.type.shape;
  const std::string given =
      "[" + std::string(who) + "] boxes are " + to_string(of.boxes.type) + ", labels " + to_string(of.labels.type);
  if (shape.rank() != 2 || shape[1] != 4 || of.labels.type.shape != Shape{shape[0]}) {
    throw ShapeError(given + "; expected [n, 4] and [n]");
  }
  const DType label = of.labels.type.dtype;
  if (of.boxes.type.dtype != DType::float32 || (label != DType::float32 && label != DType::int32)) {
    throw DtypeError(given + "; expected float32, and int32 or float32");
  }
  if (of.height < 1 || of.width < 1) {
    throw ValueError("[" + std::string(who) + "] the image is " + std::to_string(of.height) + " x " +
                     std::to_string(of.width) + "; give the extents that it has before it is changed");
  }
}

bool is_of_parts(Format format) { return format >= Format::rel_xyxy; }

/// In pixels, of four numbers of this format.
Box box_of(const float* of, const ImageBoxes& image) {
  const Format format = image.format;
  const double wide = is_of_parts(format) ? static_cast<double>(image.width) : 1;
  const double tall = is_of_parts(format) ? static_cast<double>(image.height) : 1;
  const bool is_y_first = format == Format::yxyx || format == Format::rel_yxyx || format == Format::center_yxhw;
  const double a = (is_y_first ? of[1] : of[0]) * wide, b = (is_y_first ? of[0] : of[1]) * tall;
  const double c = (is_y_first ? of[3] : of[2]) * wide, d = (is_y_first ? of[2] : of[3]) * tall;
  switch (format) {
    case Format::xywh:
    case Format::rel_xywh:
      return {a, b, a + c, b + d};
    case Format::center_xywh:
    case Format::center_yxhw:
    case Format::rel_center_xywh:
      return {a - c / 2, b - d / 2, a + c / 2, b + d / 2};
    default:
      return {a, b, c, d};
  }
}

/// The other way, in `image`, which may be another one.
std::array<float, 4> numbers_of(const Box& box, const ImageBoxes& image) {
  const Format format = image.format;
  const double wide = is_of_parts(format) ? static_cast<double>(image.width) : 1;
  const double tall = is_of_parts(format) ? static_cast<double>(image.height) : 1;
  std::array<double, 4> all = {box.left, box.top, box.right, box.bottom};
  const double width = box.right - box.left, height = box.bottom - box.top;
  if (format == Format::xywh || format == Format::rel_xywh) all = {box.left, box.top, width, height};
  if (format == Format::center_xywh || format == Format::center_yxhw || format == Format::rel_center_xywh) {
    all = {box.left + width / 2, box.top + height / 2, width, height};
  }
  all = {all[0] / wide, all[1] / tall, all[2] / wide, all[3] / tall};
  if (format == Format::yxyx || format == Format::rel_yxyx || format == Format::center_yxhw) {
    all = {all[1], all[0], all[3], all[2]};
  }
  std::array<float, 4> result{};
  std::ranges::transform(all, result.begin(), [](double number) { return static_cast<float>(number); });
  return result;
}

Box held_inside(const Box& box, const ImageBoxes& image) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  return {std::clamp(box.left, 0.0, width), std::clamp(box.top, 0.0, height), std::clamp(box.right, 0.0, width),
          std::clamp(box.bottom, 0.0, height)};
}

bool is_empty(const Box& box) { return !(box.right > box.left && box.bottom > box.top); }

template <class Label, class Change>
ImageBoxes with_labels(const ImageBoxes& of, std::int64_t height, std::int64_t width, Change change) {
  const std::span<const float> numbers = elements<float>(of.boxes);
  const std::span<const Label> given = elements<Label>(of.labels);
  ImageBoxes result = of;
  result.height = height;
  result.width = width;
  std::vector<float> moved(numbers.begin(), numbers.end());
  std::vector<Label> labels(given.begin(), given.end());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < Label(0)) continue;
    const Box box = held_inside(change(box_of(&numbers[4 * i], of)), result);
    if (is_empty(box)) labels[i] = Label(-1);
    std::ranges::copy(numbers_of(box, result), moved.begin() + static_cast<std::ptrdiff_t>(4 * i));
  }
  result.boxes = host_table(moved, of.boxes.type.shape);
  result.labels = host_table(labels, of.labels.type.shape);
  return result;
}

/// What a change of one box in pixels makes of all, in an image of these extents.
template <class Change>
ImageBoxes all_changed(const ImageBoxes& of, std::int64_t height, std::int64_t width, Change change) {
  return of.labels.type.dtype == DType::int32 ? with_labels<std::int32_t>(of, height, width, change)
                                              : with_labels<float>(of, height, width, change);
}

ImageBoxes checked(const ImageBoxes& of, std::string_view who) {
  check(of, who);
  return of;
}

ImageBoxes window(const ImageBoxes& of, const Corner& at, std::int64_t height, std::int64_t width) {
  const auto left = static_cast<double>(at.left), top = static_cast<double>(at.top);
  return all_changed(of, height, width, [&](const Box& box) {
    return Box{box.left - left, box.top - top, box.right - left, box.bottom - top};
  });
}

/// Where what an image has at a place comes to, where each of its pixels is read at m.
ImageBoxes moved(const ImageBoxes& of, const Affine& m, std::string_view who) {
  const double area = m[0] * m[4] - m[1] * m[3];
  if (!(std::abs(area) > 1e-9)) {
    throw ValueError("[" + std::string(who) +
                     "] every pixel is read on one line, so a box comes to no place; give an m "
                     "that has an inverse");
  }
  return all_changed(of, of.height, of.width, [&](const Box& box) {
    Box around{1e300, 1e300, -1e300, -1e300};
    for (const double corner_x : {box.left, box.right}) {
      for (const double corner_y : {box.top, box.bottom}) {
        const double x = corner_x - 0.5 - m[2], y = corner_y - 0.5 - m[5];  // a pixel's middle has whole numbers
        const double to_x = (m[4] * x - m[1] * y) / area + 0.5, to_y = (m[0] * y - m[3] * x) / area + 0.5;
        around = {std::min(around.left, to_x), std::min(around.top, to_y), std::max(around.right, to_x),
                  std::max(around.bottom, to_y)};
      }
    }
    return around;
  });
}

void check_extents(std::int64_t height, std::int64_t width, std::string_view who) {
  if (height >= 1 && width >= 1) return;
  throw ValueError("[" + std::string(who) + "] boxes of an image of " + std::to_string(height) + " x " +
                   std::to_string(width) + "; give extents of at least 1");
}

}  // namespace

ImageBoxes crop(const ImageBoxes& of, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  check(of, "crop");
  check_extents(height, width, "crop");
  return window(of, {top, left}, height, width);
}

ImageBoxes random_crop(const ImageBoxes& of, std::int64_t height, std::int64_t width, std::int64_t padding,
                       const RowKey& key) {
  check(of, "random_crop");
  return window(of, drawn_window(extents_of(of), height, width, padding, key), height, width);
}

ImageBoxes random_flip(const ImageBoxes& of, const RowKey& key, double p) {
  check(of, "random_flip");
  if (!(key.uniform() < p)) return of;
  const auto width = static_cast<double>(of.width);
  return all_changed(of, of.height, of.width, [&](const Box& box) {
    return Box{width - box.right, box.top, width - box.left, box.bottom};
  });
}

ImageBoxes random_shift(const ImageBoxes& of, std::int64_t most, const RowKey& key) {
  check(of, "random_shift");
  return window(of, drawn_shift(most, key), of.height, of.width);
}

ImageBoxes resize(const ImageBoxes& of, std::int64_t height, std::int64_t width) {
  check(of, "resize");
  check_extents(height, width, "resize");
  const double tall = static_cast<double>(height) / static_cast<double>(of.height);
  const double wide = static_cast<double>(width) / static_cast<double>(of.width);
  return all_changed(of, height, width, [&](const Box& box) {
    return Box{box.left * wide, box.top * tall, box.right * wide, box.bottom * tall};
  });
}

ImageBoxes affine_transform(const ImageBoxes& of, const std::array<double, 6>& m) {
  return moved(checked(of, "affine_transform"), checked_affine(m), "affine_transform");
}

ImageBoxes rotate(const ImageBoxes& of, double turn) {
  return moved(checked(of, "rotate"), checked_rotation(extents_of(of), turn), "rotate");
}

ImageBoxes random_rotation(const ImageBoxes& of, Range turn, const RowKey& key) {
  return moved(checked(of, "random_rotation"), drawn_rotation(extents_of(of), turn, key), "random_rotation");
}

ImageBoxes zoom(const ImageBoxes& of, double height, double width) {
  return moved(checked(of, "zoom"), checked_zoom(extents_of(of), height, width), "zoom");
}

ImageBoxes random_zoom(const ImageBoxes& of, Range height, const RowKey& key, std::optional<Range> width) {
  return moved(checked(of, "random_zoom"), drawn_zoom(extents_of(of), height, width, key), "random_zoom");
}

ImageBoxes shear(const ImageBoxes& of, double horizontal, double vertical) {
  return moved(checked(of, "shear"), checked_shear(horizontal, vertical), "shear");
}

ImageBoxes random_shear(const ImageBoxes& of, Range horizontal, Range vertical, const RowKey& key) {
  return moved(checked(of, "random_shear"), drawn_shear(horizontal, vertical, key), "random_shear");
}

ImageBoxes random_translation(const ImageBoxes& of, Range height, Range width, const RowKey& key) {
  const Affine m = drawn_translation(extents_of(checked(of, "random_translation")), height, width, key);
  return moved(of, m, "random_translation");
}

ImageBoxes without_empty_boxes(const ImageBoxes& of) {
  check(of, "without_empty_boxes");
  const auto kept = [&]<class Label>(Label zero) {
    const std::span<const float> numbers = elements<float>(of.boxes);
    const std::span<const Label> labels = elements<Label>(of.labels);
    std::vector<float> boxes;
    std::vector<Label> some;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < zero) continue;
      some.push_back(labels[i]);
      const std::span<const float> box = numbers.subspan(4 * i, 4);
      boxes.insert(boxes.end(), box.begin(), box.end());
    }
    ImageBoxes result = of;
    const auto n = static_cast<std::int64_t>(some.size());
    result.boxes = host_table(boxes, Shape{n, 4});
    result.labels = host_table(some, Shape{n});
    return result;
  };
  return of.labels.type.dtype == DType::int32 ? kept(std::int32_t{0}) : kept(0.0F);
}

}  // namespace lockstep::data
