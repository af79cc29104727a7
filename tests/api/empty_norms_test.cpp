// Norms of arrays without elements: 0, as numpy.linalg.norm has it, and errors where they are a least element.
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::expect_error;

TEST_CASE("norms of no elements are 0, and of orders below 0 errors") {
  const double endless = std::numeric_limits<double>::infinity();
  for (const double order : {0.0, 1.0, 2.0, 3.0, endless}) {
    CAPTURE(order);
    CHECK(linalg::norm(zeros({0}), {.order = order, .axes = Axes{0}}).item<float>() == 0);
    CHECK(linalg::norm(zeros({3, 0}), {.order = order, .axes = Axes{1}}).to_vector<float>() ==
          std::vector<float>(3, 0));
  }
  for (const double order : {1.0, 2.0, endless}) {
    for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0, 0}}) {
      CAPTURE(order);
      CHECK(linalg::norm(zeros(shape), {.order = order, .axes = Axes{0, 1}}).item<float>() == 0);
    }
  }
  CHECK(linalg::norm(zeros({0, 2}), {.order = "nuc", .axes = Axes{0, 1}}).item<float>() == 0);
  CHECK(linalg::norm(zeros({0, 2})).item<float>() == 0);
  for (const double order : {-1.0, -2.0, -endless}) {
    CAPTURE(order);
    expect_error<ShapeError>([&] { linalg::norm(zeros({0}), {.order = order, .axes = Axes{0}}); }, "linalg.norm",
                             "no elements");
    expect_error<ShapeError>(
        [&] {
          linalg::norm(zeros({0, 0}), {.order = order, .axes = Axes{0, 1}});
        },
        "linalg.norm", "no elements");
  }
}
