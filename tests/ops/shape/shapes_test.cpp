#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tests/ops/numbers.h"
#include "tests/support/run_reference.h"

namespace lockstep::tests {
namespace {

const Numbers six = {1, 2, 3, 4, 5, 6};

Numbers run_on(std::string_view op, const Shape& shape, const Numbers& x, const Attrs& attrs) {
  return run_reference(op, {reference_array({float64, shape, {}}, x)}, attrs)[0].floats();
}

}  // namespace

TEST_CASE("elements go where the shape ops say") {
  CHECK(run_on("transpose", {2, 3}, six, {{"permutation", Dims{1, 0}}}) == Numbers{1, 4, 2, 5, 3, 6});
  CHECK(run_on("reshape", {2, 3}, six, {{"shape", Dims{3, 2}}}) == six);
  CHECK(run_on("broadcast_in_dim", {2, 1}, {1, 2}, {{"shape", Dims{2, 2}}, {"dims", Dims{0, 1}}}) ==
        Numbers{1, 1, 2, 2});
  CHECK(run_on("broadcast_in_dim", {2}, {1, 2}, {{"shape", Dims{2, 2}}, {"dims", Dims{1}}}) == Numbers{1, 2, 1, 2});
  CHECK(run_on("slice", {6}, six, {{"start", Dims{1}}, {"limit", Dims{6}}, {"strides", Dims{2}}}) == Numbers{2, 4, 6});
  CHECK(run_on("reverse", {2, 3}, six, {{"dims", Dims{1}}}) == Numbers{3, 2, 1, 6, 5, 4});
}

TEST_CASE("pad fills low, high and between, and crops") {
  const auto pad = [](const Numbers& x, Dims low, Dims high, Dims interior) {
    const ir::ReferenceArray operand = reference_array({float64, Shape{static_cast<std::int64_t>(x.size())}, {}}, x);
    const Attrs attrs = {{"low", low}, {"high", high}, {"interior", interior}};
    return run_reference("pad", {operand, reference_array({float64, Shape{}, {}}, {9})}, attrs)[0].floats();
  };
  CHECK(pad({1, 2, 3}, {1}, {2}, {0}) == Numbers{9, 1, 2, 3, 9, 9});
  CHECK(pad({1, 2, 3}, {0}, {0}, {1}) == Numbers{1, 9, 2, 9, 3});
  CHECK(pad({1, 2, 3}, {-1}, {-1}, {0}) == Numbers{2});
  CHECK(pad({1, 2, 3}, {-1}, {1}, {1}) == Numbers{9, 2, 9, 3, 9});
  CHECK(pad({}, {1}, {1}, {5}) == Numbers{9, 9});
}

TEST_CASE("concatenate joins in order") {
  const ir::ReferenceArray a = reference_array({float64, Shape{2, 1}, {}}, {1, 2});
  const ir::ReferenceArray b = reference_array({float64, Shape{2, 2}, {}}, {3, 4, 5, 6});
  const ir::ReferenceArray joined = run_reference("concatenate", {a, b}, {{"dim", std::int64_t{1}}})[0];
  CHECK(joined.type.shape == Shape{2, 3});
  CHECK(joined.floats() == Numbers{1, 3, 4, 2, 5, 6});
}

}  // namespace lockstep::tests
