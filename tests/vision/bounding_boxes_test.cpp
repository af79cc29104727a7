#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>
#include <lockstep/vision/bounding_boxes.h>

#include "tests/support/expect_error.h"

// tests/golden/functions holds values, derivatives and batches against Keras'.
using namespace lockstep;
using bounding_boxes::Format;
using tests::expect_error;

namespace {

constexpr Format formats[] = {Format::xyxy,        Format::yxyx,        Format::xywh,
                              Format::center_xywh, Format::center_yxhw, Format::rel_xyxy,
                              Format::rel_yxyx,    Format::rel_xywh,    Format::rel_center_xywh};

double largest_magnitude(const Array& x) { return max(abs(x)).to_vector<float>()[0]; }

Array drawn_boxes(const Shape& shape) { return random::uniform(random::key(1), shape, float32, 1.0, 9.0); }

}  // namespace

TEST_CASE("boxes come back from any format, through any other") {
  const Array boxes = drawn_boxes({5, 4});
  const bounding_boxes::ImageSize size{20, 30};
  for (const Format from : formats) {
    for (const Format to : formats) {
      const Array there = bounding_boxes::convert_format(boxes, from, to, size);
      CHECK(largest_magnitude(bounding_boxes::convert_format(there, to, from, size) - boxes) < 1e-4);
    }
  }
  CHECK(bounding_boxes::convert_format(zeros({0, 4}), Format::xyxy, Format::xywh).shape() == Shape{0, 4});
  CHECK(bounding_boxes::convert_format(zeros({2, 4}, int32), Format::xyxy, Format::xywh).dtype() == float32);
}

TEST_CASE("overlaps of no box, of one with itself, and of none") {
  const Array a = array({0.0F, 0.0F, 2.0F, 2.0F}, {1, 4}), far = array({5.0F, 5.0F, 6.0F, 6.0F}, {1, 4});
  CHECK(bounding_boxes::compute_iou(a, a).to_vector<float>()[0] == doctest::Approx(1));
  CHECK(bounding_boxes::compute_iou(a, far).to_vector<float>()[0] == 0);
  CHECK(bounding_boxes::compute_iou(zeros({0, 4}), a).shape() == Shape{0, 1});
  CHECK(bounding_boxes::compute_iou(zeros({3, 2, 4}), zeros({5, 4})).shape() == Shape{3, 2, 5});
  const Array none = full({1, 4}, -1.0F);
  CHECK(bounding_boxes::compute_iou(a, none, {.use_masking = true}).to_vector<float>()[0] == -1);
  CHECK(bounding_boxes::compute_ciou(a, a).to_vector<float>()[0] == doctest::Approx(1));
  CHECK(bounding_boxes::compute_ciou(a, far).to_vector<float>()[0] < 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(bounding_boxes::compute_iou(a, full({1, 4}, nan)).to_vector<float>()[0]));
  const auto loss = [&](const Array& box) { return sum(1 - bounding_boxes::compute_ciou(box, far)); };
  CHECK(largest_magnitude(jit(grad(loss))(a)) > 0);
}

TEST_CASE("deltas lead from anchors to boxes and back") {
  const Array anchors = array({0.0F, 0.0F, 2.0F, 2.0F, 1.0F, 3.0F, 4.0F, 9.0F}, {2, 4});
  const Array boxes = array({1.0F, 0.0F, 2.0F, 3.0F, 1.0F, 2.0F, 5.0F, 7.0F}, {2, 4});
  for (const Format encoding : {Format::center_yxhw, Format::center_xywh}) {
    const bounding_boxes::DeltaOptions options{.encoding = encoding, .variance = {{0.1, 0.1, 0.2, 0.2}}};
    const Array deltas = bounding_boxes::encode_box_to_deltas(anchors, boxes, options);
    CHECK(largest_magnitude(bounding_boxes::decode_deltas_to_boxes(anchors, deltas, options) - boxes) < 1e-5);
  }
  const Array flat = array({1.0F, 1.0F, 1.0F, 1.0F}, {1, 4});
  CHECK(std::isfinite(largest_magnitude(bounding_boxes::encode_box_to_deltas(flat, flat))));
}

TEST_CASE("boxes of any number are brought to one") {
  const Array boxes = drawn_boxes({2, 3, 4}), labels = array({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto [more, more_labels] = bounding_boxes::limit_number(boxes, labels, 5);
  CHECK(more.shape() == Shape{2, 5, 4});
  CHECK(more_labels.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 2, 3, -1, -1, 4, 5, 6, -1, -1});
  CHECK(more.to_vector<float>()[12] == -1);
  const auto [fewer, fewer_labels] = bounding_boxes::limit_number(boxes, labels, 2, -7);
  CHECK(fewer.shape() == Shape{2, 2, 4});
  CHECK(fewer_labels.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 2, 4, 5});
  CHECK(bounding_boxes::limit_number(boxes, labels, 0).first.shape() == Shape{2, 0, 4});
  CHECK(bounding_boxes::limit_number(zeros({0, 4}), zeros({0}, int32), 2).second.to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{-1, -1});
}

TEST_CASE("functions of boxes say what does not fit") {
  const Array boxes = drawn_boxes({2, 4});
  expect_error<ShapeError>(
      [&] {
        bounding_boxes::convert_format(drawn_boxes({2, 3}), Format::xyxy, Format::xywh);
      },
      "bounding_boxes.convert_format: boxes are f32[2,3]; expected four numbers");
  expect_error<ValueError>([&] { bounding_boxes::convert_format(boxes, Format::rel_xywh, Format::xyxy); },
                           "from rel_xywh to xyxy takes the image's height and width; give its size");
  expect_error<ShapeError>([&] { bounding_boxes::compute_iou(drawn_boxes({4}), boxes); }, "expected [..., n, 4]");
  expect_error<ValueError>([&] { bounding_boxes::compute_iou(boxes, boxes, {.format = Format::rel_xyxy}); },
                           "give its size");
  expect_error<ValueError>([&] { bounding_boxes::compute_ciou(boxes, boxes, Format::rel_yxyx); },
                           "compute_ciou: boxes are rel_yxyx; convert them to pixels first");
  expect_error<ValueError>(
      [&] {
        bounding_boxes::clip_to_image_size(boxes, {4, 4}, Format::xywh);
      },
      "clip_to_image_size: boxes are xywh; expected xyxy or rel_xyxy");
  expect_error<ShapeError>(
      [&] {
        bounding_boxes::clip_to_image_size(boxes, zeros({3}), {4, 4});
      },
      "expected one label for each box");
  expect_error<ValueError>([&] { bounding_boxes::encode_box_to_deltas(boxes, boxes, {.encoding = Format::xyxy}); },
                           "encode_box_to_deltas: encoding is xyxy; expected center_yxhw or center_xywh");
  expect_error<ValueError>([&] { bounding_boxes::decode_deltas_to_boxes(boxes, boxes, {.encoding = Format::xywh}); },
                           "decode_deltas_to_boxes: encoding is xywh");
  expect_error<ShapeError>([&] { bounding_boxes::decode_deltas_to_boxes(boxes, drawn_boxes({2})); },
                           "boxes are f32[2]");
  expect_error<ShapeError>([&] { bounding_boxes::crop(drawn_boxes({3}), 0, 0, 1, 1); }, "bounding_boxes.crop");
  expect_error<ShapeError>([&] { bounding_boxes::pad(drawn_boxes({3}), 0, 0); }, "bounding_boxes.pad");
  expect_error<ShapeError>([&] { bounding_boxes::limit_number(boxes, zeros({}), 2); },
                           "limit_number: labels are f32[]");
  expect_error<ShapeError>([&] { bounding_boxes::limit_number(boxes, zeros({3}), 2); }, "one label for each box");
  expect_error<ValueError>([&] { bounding_boxes::limit_number(boxes, zeros({2}), -1); }, "most is -1");
}

TEST_CASE("boxes of float16 in pixels have an overlap, and its derivative") {
  const Array boxes = convert(array({{0.0F, 0.0F, 640.0F, 512.0F}, {320.0F, 0.0F, 960.0F, 512.0F}}), float16);
  const Array iou = bounding_boxes::compute_iou(boxes, boxes);
  CHECK(iou.dtype() == float16);
  CHECK(convert(iou, float32).to_vector<float>() == std::vector<float>{1, 0x1.554p-2F, 0x1.554p-2F, 1});
  CHECK(convert(bounding_boxes::compute_ciou(boxes, boxes), float32).to_vector<float>() == std::vector<float>{1, 1});
  const auto overlap = [&](const Array& b) { return sum(bounding_boxes::compute_iou(b, boxes)); };
  CHECK(all(is_finite(grad(overlap)(boxes))).item<bool>());
}
