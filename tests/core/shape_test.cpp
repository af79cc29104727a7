#include <limits>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/types.h>

#include "tests/support/expect_error.h"

namespace lockstep {

using tests::error_text;

TEST_CASE("a shape knows its extents") {
  const Shape shape{2, 3, 5};
  CHECK(shape.rank() == 3);
  CHECK(shape.size() == 30);
  CHECK(shape[1] == 3);
  CHECK(shape.dim(-1) == 5);
  CHECK(shape.dim(0) == 2);
  CHECK(to_string(shape) == "[2,3,5]");
  CHECK(to_string(Shape{}) == "[]");
  CHECK(Shape{}.size() == 1);
  CHECK(Shape{4, 0, 3}.size() == 0);
  CHECK(shape.to_vector() == std::vector<std::int64_t>{2, 3, 5});
  CHECK(Shape(shape.dims()) == shape);
  CHECK(Shape(shape.to_vector()) == shape);
  CHECK(Shape{2, 3} != shape);
  CHECK(Shape{2, 3, 6} != shape);
  CHECK(row_major_strides(shape) == std::vector<std::int64_t>{15, 5, 1});
}

TEST_CASE("a shape with one extent changed, put in or left out") {
  const Shape shape{2, 3};
  CHECK(shape.with(1, 7) == Shape{2, 7});
  CHECK(shape.insert(0, 9) == Shape{9, 2, 3});
  CHECK(shape.insert(2, 9) == Shape{2, 3, 9});
  CHECK(shape.erase(0) == Shape{3});
  CHECK(shape.erase(1) == Shape{2});
  Shape grown = shape;
  grown.append(4);
  CHECK(grown == Shape{2, 3, 4});
  // What is left of a longer shape takes no part in comparisons.
  CHECK(grown.erase(2) == shape);
}

TEST_CASE("a number of elements that does not fit is refused, but 0 is 0") {
  const std::int64_t big = std::int64_t{1} << 32;
  CHECK(error_text<ShapeError>([&] {
          (void)Shape{big, big}.size();
        }) == "shape [4294967296,4294967296] has more elements than fit 63 bits");
  CHECK(Shape{big, big, 0}.size() == 0);
  CHECK(Shape{std::numeric_limits<std::int64_t>::max()}.size() == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("shape errors say what was given and expected") {
  CHECK(error_text<ShapeError>([] { Shape{2, -1}; }) == "shape [2,-1]: expected every extent >= 0");
  CHECK(error_text<ShapeError>([] { Shape{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}; }) ==
        "shape [1,2,3,4,5,6,7,8,9,10,11,12,13] has rank 13, expected at most 12; merge dimensions with reshape");
  CHECK(error_text<ShapeError>([] {
          (void)Shape{2, 3}.dim(2);
        }) == "Shape::dim: dimension 2 of [2,3], expected -2 to 1");
  CHECK(error_text<ShapeError>([] {
          (void)Shape{2, 3}.dim(-3);
        }) == "Shape::dim: dimension -3 of [2,3], expected -2 to 1");
  CHECK(error_text<ShapeError>([] { (void)Shape{2}.with(1, 3); }) == "Shape::with: position 1 of [2], expected 0 to 0");
  CHECK(error_text<ShapeError>([] { (void)Shape{2}.with(0, -3); }) ==
        "shape: got an extent of -3, expected every extent >= 0");
  CHECK(error_text<ShapeError>([] { (void)Shape{2}.insert(2, 3); }) ==
        "Shape::insert: position 2 of [2], expected 0 to 1");
  CHECK(error_text<ShapeError>([] { (void)Shape{2}.erase(-1); }) ==
        "Shape::erase: position -1 of [2], expected 0 to 0");
}

TEST_CASE("axes count from both ends") {
  CHECK(normalize_axis(1, 3, "sum") == 1);
  CHECK(normalize_axis(-3, 3, "sum") == 0);
  CHECK(error_text<ShapeError>([] { normalize_axis(3, 3, "sum"); }) ==
        "sum: axis 3 of an array of rank 3, expected -3 to 2");
  CHECK(error_text<ShapeError>([] { normalize_axis(0, 0, "sum"); }) ==
        "sum: axis 0 of an array of rank 0, but a scalar has no axes");
}

TEST_CASE("broadcasting as in numpy") {
  struct Case {
    Shape a, b, expected;
  };
  const Case cases[] = {{{2, 3}, {3}, {2, 3}},          {{}, {4}, {4}},  {{2, 1}, {1, 5}, {2, 5}},
                        {{2, 1, 3}, {4, 1}, {2, 4, 3}}, {{0}, {1}, {0}}, {{}, {}, {}}};
  for (const Case& c : cases) {
    CHECK(broadcast_shapes(c.a, c.b, "add") == c.expected);
    CHECK(broadcast_shapes(c.b, c.a, "add") == c.expected);
  }
  CHECK(error_text<ShapeError>([] {
          broadcast_shapes({2, 3}, {2}, "add");
        }) ==
        "add: shapes [2,3] and [2] do not broadcast; counted from the last dimension, extents must be equal or 1 "
        "(reshape or expand_dims one of them)");
}

}  // namespace lockstep
