#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tests/ops/numbers.h"
#include "tests/support/run_reference.h"

namespace lockstep::tests {
namespace {

ir::ReferenceArray float64_array(const Shape& shape, const Numbers& x) {
  return reference_array({float64, shape, {}}, x);
}
ir::ReferenceArray indices(const Shape& shape, const Numbers& x, DType dtype = int32) {
  return reference_array({dtype, shape, {}}, x);
}

}  // namespace

TEST_CASE("rows are gathered and added at clamped indices") {
  const ir::ReferenceArray table = float64_array({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(run_reference("gather_rows", {table, indices({3}, {-1, 1, 9})}, {})[0].floats() == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(run_reference("gather_rows", {table, indices({}, {2})}, {})[0].type.shape == Shape{2});
  const Attrs rows = {{"rows", std::int64_t{3}}};
  const ir::ReferenceArray updates = float64_array({4}, {1, 10, 100, 1000});
  CHECK(run_reference("scatter_add_rows", {indices({4}, {0, 2, 2, 7}), updates}, rows)[0].floats() ==
        Numbers{1, 0, 1110});
}

TEST_CASE("an unsigned index beyond any signed one is the last") {
  const ir::ReferenceArray huge{{uint64, Shape{1}, {}}, std::vector<std::int64_t>{-1}};
  CHECK(run_reference("gather_rows", {float64_array({3}, {1, 2, 3}), huge}, {})[0].floats() == Numbers{3});
}

TEST_CASE("elements are taken and added along one axis at clamped indices") {
  const ir::ReferenceArray x = float64_array({2, 3}, {1, 2, 3, 4, 5, 6});
  const Attrs axis = {{"axis", std::int64_t{1}}};
  CHECK(run_reference("take_along_axis", {x, indices({2, 2}, {2, 0, -5, 9})}, axis)[0].floats() == Numbers{3, 1, 4, 6});
  const Attrs sized = {{"axis", std::int64_t{1}}, {"size", std::int64_t{3}}};
  CHECK(run_reference("scatter_add_along_axis", {indices({2, 2}, {0, 0, 1, 9}), float64_array({2, 2}, {1, 2, 3, 4})},
                      sized)[0]
            .floats() == Numbers{3, 0, 0, 0, 3, 4});
}

TEST_CASE("a dynamic slice is moved so that it fits") {
  const ir::ReferenceArray x = float64_array({4}, {1, 2, 3, 4});
  const Attrs two = {{"sizes", std::vector<std::int64_t>{2}}};
  CHECK(run_reference("dynamic_slice", {x, indices({}, {1})}, two)[0].floats() == Numbers{2, 3});
  CHECK(run_reference("dynamic_slice", {x, indices({}, {-3})}, two)[0].floats() == Numbers{1, 2});
  CHECK(run_reference("dynamic_slice", {x, indices({}, {3})}, two)[0].floats() == Numbers{3, 4});
  const ir::ReferenceArray update = float64_array({2}, {8, 9});
  CHECK(run_reference("dynamic_update_slice", {x, update, indices({}, {3})}, {})[0].floats() == Numbers{1, 2, 8, 9});
  CHECK(run_reference("dynamic_update_slice", {x, update, indices({}, {1})}, {})[0].floats() == Numbers{1, 8, 9, 4});
}

}  // namespace lockstep::tests
