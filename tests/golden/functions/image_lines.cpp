#include <lockstep/ops.h>
#include <lockstep/vision/bounding_boxes.h>
#include <lockstep/vision/image.h>
#include <lockstep/vision/image_filters.h>

#include "tests/golden/functions/table.h"

// Images and the boxes in them, against Keras.
namespace lockstep::tests::functions {
namespace {

const Room image_sums{2e-5, 1e-12, "long sums in another order"};
const Options image_summed = {.room = image_sums};

Lines colours() {
  using namespace image;
  const Input x = distinct({2, 3, 4, 3}, 0, 1);
  return {
      {"image::rgb_to_grayscale",
       "keras_images.grayscale(x)",
       {distinct({2, 3, 4, 3}, 0, 200)},
       [](A x) { return rgb_to_grayscale(x); },
       {.dtypes = {float32, float64, uint8, int32}, .room = image_sums}},
      {"image::rgb_to_grayscale",
       "keras_images.grayscale(x)",
       {drawn({4, 3, 1})},
       [](A x) { return rgb_to_grayscale(x); }},
      {"image::rgb_to_hsv", "keras_images.image.rgb_to_hsv(x)", {x}, [](A x) { return rgb_to_hsv(x); }, image_summed},
      {"image::rgb_to_hsv",
       "keras_images.image.rgb_to_hsv(x)",
       {given({0, 0, 0, 1, 1, 1, 0.5, 0.5, 0.25, 1, 0, 0, 0, 1, 0, 0, 0, 1}, {1, 6, 3})},
       [](A x) { return rgb_to_hsv(x); },
       {.no_derivative = "ties of channels, where the largest and the least are one", .room = image_sums}},
      {"image::hsv_to_rgb", "keras_images.image.hsv_to_rgb(x)", {x}, [](A x) { return hsv_to_rgb(x); }, image_summed},
      {"image::hsv_to_rgb",
       "keras_images.image.hsv_to_rgb(x)",
       {drawn({3, 4, 3}, -1.5, 2.5)},
       [](A x) { return hsv_to_rgb(x); },
       image_summed},
  };
}

Lines filters() {
  using namespace image;
  const Input x = drawn({2, 7, 6, 3}, 0, 1);
  return {
      {"image::gaussian_blur",
       "keras_images.blurred(x, y, z)",
       {x, drawn({}, 0.5, 2), drawn({}, 0.5, 2)},
       [](A x, A vertical, A horizontal) {
         return gaussian_blur(x, {5, 3}, vertical, horizontal);
       },
       image_summed},
      {"image::sobel_edges", "keras_images.edges(x)", {x}, [](A x) { return sobel_edges(x); }, image_summed},
      {"image::ssim",
       "keras_images.ssim(x, y, filter_size=5)",
       {x, drawn({2, 7, 6, 3}, 0, 1)},
       [](A x, A y) { return ssim(x, y, {.window = 5}); },
       image_summed},
      {"image::ssim",
       "keras_images.ssim(x, y, max_val=255.0, filter_size=3, filter_sigma=0.8, k1=0.02, k2=0.05)",
       {drawn({5, 4, 1}, 0, 255), drawn({5, 4, 1}, 0, 255)},
       [](A x, A y) { return ssim(x, y, {.max_value = 255, .window = 3, .deviation = 0.8, .k1 = 0.02, .k2 = 0.05}); },
       {.room = {2e-4, 1e-12, "differences of mean squares"}}},
      {"image::psnr",
       "keras_images.psnr(x, y, 2.0)",
       {x, drawn({2, 7, 6, 3})},
       [](A x, A y) { return psnr(x, y, 2.0); },
       image_summed},
  };
}

Lines image_transforms() {
  using namespace image;
  const Input one = drawn({5, 4, 3}), batch = drawn({2, 5, 4, 3});
  const Input turned = given({0.8, -0.63, 1.17, 0.57, 0.79, -0.71});
  const Input two = given({0.8, -0.63, 1.17, 0.57, 0.79, -0.71, 1.3, 0.21, -2.4, -0.13, 0.71, 1.9}, {2, 6});
  const Input seen = given({0.8, -0.63, 1.17, 0.57, 0.79, -0.71, 0.021, -0.032});
  const Input start = given({0, 0, 3, 0, 0, 4, 3, 4}, {4, 2});
  const Input end = given({0.4, -0.3, 2.7, 0.6, -0.2, 3.6, 3.3, 4.4}, {4, 2});
  const Options turns = {.room = {5e-5, 1e-12, "places between pixels have float32's digits"}};
  const auto with = [](Outside outside) { return MapOptions{.outside = outside}; };
  return {
      {"image::affine_transform",
       "keras_images.affine(x, y)",
       {one, turned},
       [](A x, A m) { return affine_transform(x, m); },
       turns},
      {"image::affine_transform",
       "keras_images.affine(x, y, fill_mode='reflect')",
       {batch, two},
       [with](A x, A m) { return affine_transform(x, m, with(Outside::reflect)); },
       turns},
      {"image::affine_transform",
       "keras_images.affine(x, jnp.stack([y, y]), fill_mode='wrap')",
       {batch, turned},
       [with](A x, A m) { return affine_transform(x, m, with(Outside::wrap)); },
       turns},
      {"image::affine_transform",
       "keras_images.affine(x, y, interpolation='nearest', fill_mode='nearest')",
       {one, turned},
       [](A x, A m) { return affine_transform(x, m, {.order = 0, .outside = Outside::nearest}); },
       {.underived = {1}}},
      {"image::affine_transform",
       "keras_images.projected(x, y, mode='mirror')",
       {one, seen},
       [with](A x, A m) { return affine_transform(x, m, with(Outside::mirror)); },
       turns},
      {"image::perspective_transform",
       "keras_images.image.perspective_transform(x, y, z, fill_value=0.5)",
       {one, start, end},
       [](A x, A from, A to) { return perspective_transform(x, from, to, {.cval = 0.5}); },
       {.dtypes = {float32},
        .no_derivative = "the next line has it",
        .no_vmap = "Keras looks at ranks",
        .room = {1e-4, 0, "equations solved in float32"}}},
      {"image::perspective_transform",
       "keras_images.seen(x, y, z)",
       {one, start, end},
       [](A x, A from, A to) { return perspective_transform(x, from, to); },
       {.dtypes = {float64}, .room = {0, 1e-11, "equations solved in another order"}}},
      {"image::perspective_transform",
       "jnp.stack([keras_images.seen(x[0], y[0], z), keras_images.seen(x[1], y[1], z)])",
       {batch, given({0, 0, 3, 0, 0, 4, 3, 4, 0, 0.5, 3, 0, 0.5, 4, 3.5, 4}, {2, 4, 2}), end},
       [](A x, A from, A to) { return perspective_transform(x, from, to); },
       {.dtypes = {float64}, .room = {0, 1e-11, "equations solved in another order"}}},
  };
}

/// Boxes of corners with an area.
const Input some = given({1, 2, 4.5, 6, 0.5, 0.25, 3, 2.75, 2, 2, 7, 3.5}, {3, 4});
const Input other_boxes = given({0.5, 3, 4, 5.5, 1, 1.5, 5, 4, 6, 6.5, 9, 8, -1, -1, -1, -1}, {4, 4});

Lines box_format_lines() {
  using bounding_boxes::Format;
  struct Named {
    Format format;
    std::string_view to, from;
  };
  static constexpr Named named[] = {
      {Format::xyxy, "keras_images.convert_format(x, 'xyxy', 'xyxy', 6, 8)",
       "keras_images.convert_format(x, 'xyxy', 'xyxy', 6, 8)"},
      {Format::yxyx, "keras_images.convert_format(x, 'xyxy', 'yxyx', 6, 8)",
       "keras_images.convert_format(x, 'yxyx', 'xyxy', 6, 8)"},
      {Format::xywh, "keras_images.convert_format(x, 'xyxy', 'xywh', 6, 8)",
       "keras_images.convert_format(x, 'xywh', 'xyxy', 6, 8)"},
      {Format::center_xywh, "keras_images.convert_format(x, 'xyxy', 'center_xywh', 6, 8)",
       "keras_images.convert_format(x, 'center_xywh', 'xyxy', 6, 8)"},
      {Format::center_yxhw, "keras_images.convert_format(x, 'xyxy', 'center_yxhw', 6, 8)",
       "keras_images.convert_format(x, 'center_yxhw', 'xyxy', 6, 8)"},
      {Format::rel_xyxy, "keras_images.convert_format(x, 'xyxy', 'rel_xyxy', 6, 8)",
       "keras_images.convert_format(x, 'rel_xyxy', 'xyxy', 6, 8)"},
      {Format::rel_yxyx, "keras_images.convert_format(x, 'xyxy', 'rel_yxyx', 6, 8)",
       "keras_images.convert_format(x, 'rel_yxyx', 'xyxy', 6, 8)"},
      {Format::rel_xywh, "keras_images.convert_format(x, 'xyxy', 'rel_xywh', 6, 8)",
       "keras_images.convert_format(x, 'rel_xywh', 'xyxy', 6, 8)"},
      {Format::rel_center_xywh, "keras_images.convert_format(x, 'xyxy', 'rel_center_xywh', 6, 8)",
       "keras_images.convert_format(x, 'rel_center_xywh', 'xyxy', 6, 8)"}};
  const bounding_boxes::ImageSize size{6, 8};
  Lines lines;
  for (const Named& entry : named) {
    const Format format = entry.format;
    lines.push_back({"bounding_boxes::convert_format", entry.to, {some}, [=](A x) {
                       return bounding_boxes::convert_format(x, Format::xyxy, format, size);
                     }});
    lines.push_back({"bounding_boxes::convert_format", entry.from, {some}, [=](A x) {
                       return bounding_boxes::convert_format(x, format, Format::xyxy, size);
                     }});
  }
  lines.push_back(
      {"bounding_boxes::convert_format",
       "keras_images.convert_format(x, 'rel_yxyx', 'rel_center_xywh', 6, 8)",
       {some},
       [=](A x) { return bounding_boxes::convert_format(x, Format::rel_yxyx, Format::rel_center_xywh, size); }});
  return lines;
}

Lines overlaps() {
  using namespace bounding_boxes;
  const Input pairs = given({2, 3, 5, 7, 0.5, 0.75, 2.5, 3, 8, 7, 9, 9}, {3, 4});
  return {
      {"bounding_boxes::compute_iou",
       "keras_images.compute_iou(x, y, 'xyxy')",
       {some, other_boxes},
       [](A x, A y) { return compute_iou(x, y); },
       image_summed},
      {"bounding_boxes::compute_iou",
       "keras_images.compute_iou(x, y, 'rel_xywh', use_masking=True, mask_val=-2, image_shape=(6, 8, 3))",
       {some, other_boxes},
       [](A x, A y) {
         return compute_iou(
             x, y, {.format = Format::rel_xywh, .image = ImageSize{6, 8}, .use_masking = true, .mask_value = -2});
       },
       image_summed},
      {"bounding_boxes::compute_iou",
       "keras_images.compute_iou(x, y, 'yxyx')",
       {drawn({2, 3, 4}), drawn({2, 2, 4})},
       [](A x, A y) { return compute_iou(x, y, {.format = Format::yxyx}); },
       {.no_vmap = "Keras has batches of one dimension", .room = {1e-3, 1e-10, "small areas of both signs"}}},
      {"bounding_boxes::compute_ciou",
       "keras_images.compute_ciou(x, y, 'xyxy')",
       {some, pairs},
       [](A x, A y) { return compute_ciou(x, y); },
       image_summed},
      {"bounding_boxes::compute_ciou",
       "keras_images.compute_ciou(x, y, 'center_xywh')",
       {some, pairs},
       [](A x, A y) { return compute_ciou(x, y, Format::center_xywh); },
       image_summed},
  };
}

Lines moves() {
  using namespace bounding_boxes;
  const Input far = drawn({2, 3, 4}, -3, 9);
  return {
      {"bounding_boxes::clip_to_image_size",
       "keras_images.clipped(x, 4, 5)",
       {far},
       [](A x) {
         return clip_to_image_size(x, {4, 5});
       }},
      {"bounding_boxes::clip_to_image_size",
       "keras_images.clipped(x, 4, 5, 'rel_xyxy')",
       {far},
       [](A x) {
         return clip_to_image_size(x, {4, 5}, Format::rel_xyxy);
       }},
      {"bounding_boxes::clip_to_image_size",
       "keras_images.clipped_with_labels(x, y, 4, 5)",
       {far, whole({1, 2, 3, 4, 5, 6}, {2, 3})},
       [](A x, A labels) {
         return clip_to_image_size(x, labels, {4, 5});
       }},
      {"bounding_boxes::crop",
       "keras_images.crop(x, 1, 2, 4, 3)",
       {far},
       [](A x) { return bounding_boxes::crop(x, 1, 2, 4, 3); }},
      {"bounding_boxes::pad", "keras_images.pad(x, 1, 2)", {far}, [](A x) { return bounding_boxes::pad(x, 1, 2); }},
      {"bounding_boxes::encode_box_to_deltas",
       "keras_images.encode(x, y, 'xyxy', 'xywh', variance=[0.125, 0.125, 0.25, 0.25])",
       {some, drawn({2, 3, 4}, 0.5, 3)},
       [](A anchors, A boxes) {
         return encode_box_to_deltas(anchors, boxes,
                                     {.box_format = Format::xywh, .variance = {{0.125, 0.125, 0.25, 0.25}}});
       },
       image_summed},
      {"bounding_boxes::encode_box_to_deltas",
       "keras_images.encode(x, y, 'xyxy', 'rel_xyxy', 'center_xywh', image_shape=(6, 8, 3))",
       {some, some},
       [](A anchors, A boxes) {
         return encode_box_to_deltas(
             anchors, boxes,
             {.box_format = Format::rel_xyxy, .encoding = Format::center_xywh, .image = ImageSize{6, 8}});
       },
       image_summed},
      {"bounding_boxes::decode_deltas_to_boxes",
       "keras_images.decode(x, y, 'xyxy', 'xywh', variance=[0.125, 0.125, 0.25, 0.25])",
       {some, drawn({2, 3, 4})},
       [](A anchors, A deltas) {
         return decode_deltas_to_boxes(anchors, deltas,
                                       {.box_format = Format::xywh, .variance = {{0.125, 0.125, 0.25, 0.25}}});
       },
       image_summed},
  };
}

}  // namespace

Lines image_lines() {
  Lines lines;
  for (const Lines& part : {colours(), filters(), image_transforms(), box_format_lines(), overlaps(), moves()}) {
    lines.insert(lines.end(), part.begin(), part.end());
  }
  return lines;
}

}  // namespace lockstep::tests::functions
