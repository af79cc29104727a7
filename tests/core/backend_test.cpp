#include <doctest/doctest.h>

#include <lockstep/backend/backend.h>
#include <lockstep/error.h>
#include <lockstep/version.h>

namespace lockstep {

TEST_CASE("row-major views are contiguous, others are not") {
  float memory[12] = {};
  ArrayView view = contiguous_view(memory, float32, {3, 4});
  CHECK(view.data == memory);
  CHECK(view.dtype == float32);
  CHECK(view.strides[0] == 4);
  CHECK(view.strides[1] == 1);
  CHECK(view.is_contiguous());
  view.strides[0] = 0;
  CHECK_FALSE(view.is_contiguous());

  ArrayView one_row = contiguous_view(memory, float32, {1, 4});
  one_row.strides[0] = 99;  // never used
  CHECK(one_row.is_contiguous());
  ArrayView empty = contiguous_view(memory, float32, {0, 4});
  empty.strides[1] = 7;
  CHECK(empty.is_contiguous());
  CHECK(contiguous_view(memory, float32, {}).is_contiguous());
}

TEST_CASE("every kind of error is an Error") {
  CHECK_THROWS_AS(throw ShapeError("x"), Error);
  CHECK_THROWS_AS(throw DtypeError("x"), Error);
  CHECK_THROWS_AS(throw AggregationError("x"), Error);
  CHECK_THROWS_AS(throw TraceError("x"), Error);
  CHECK_THROWS_AS(throw StateError("x"), Error);
  CHECK_THROWS_AS(throw MeshError("x"), Error);
  CHECK_THROWS_AS(throw DataError("x"), Error);
  CHECK_THROWS_AS(throw CheckpointError("x"), Error);
  CHECK_THROWS_AS(throw CommunicatorError("x"), Error);
  CHECK_THROWS_AS(throw BackendError("x"), Error);
  CHECK_THROWS_AS(throw IrError("x"), Error);
  CHECK_THROWS_AS(throw ValueError("x"), Error);
}

TEST_CASE("the version is three numbers") {
  int dots = 0;
  for (const char c : version()) {
    dots += c == '.' ? 1 : 0;
    CHECK((c == '.' || (c >= '0' && c <= '9')));
  }
  CHECK(dots == 2);
}

}  // namespace lockstep
