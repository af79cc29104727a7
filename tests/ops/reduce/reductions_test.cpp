#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "tests/ops/numbers.h"
#include "tests/support/non_finite.h"
#include "tests/support/op_functions.h"
#include "tests/support/run_reference.h"

namespace lockstep::tests {
namespace {

Attrs over_dims(const ops::Dims& axes) { return {{"axes", axes}}; }

ir::ReferenceArray reduced(std::string_view op, DType dtype, const Shape& shape, const std::vector<double>& x,
                           const ops::Dims& axes) {
  return run_reference(op, {reference_array({dtype, shape, {}}, x)}, over_dims(axes))[0];
}

/// The tangent of a reduction over axis 0 of a float64 vector.
double reduced_tangent(const ir::Primitive& op, const Elements& x, const Elements& dx) {
  const ArrayType type{float64, Shape{static_cast<std::int64_t>(x.size())}, {}};
  return evaluate(jvp_function(op, {{{type}}, over_dims({0}), {}}, {true}), {x, dx})[0][0];
}

}  // namespace

TEST_CASE("reductions drop their axes") {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6};
  CHECK(reduced("reduce_sum", float64, {2, 3}, x, {0}).floats() == std::vector<double>{5, 7, 9});
  CHECK(reduced("reduce_sum", float64, {2, 3}, x, {1}).floats() == std::vector<double>{6, 15});
  CHECK(reduced("reduce_sum", float64, {2, 3}, x, {1, 0}).floats() == std::vector<double>{21});
  CHECK(reduced("reduce_prod", int32, {2, 3}, x, {1}).integers() == Integers{6, 120});
  CHECK(reduced("reduce_max", float64, {2, 3}, x, {0}).floats() == std::vector<double>{4, 5, 6});
  CHECK(reduced("reduce_min", float64, {2, 3}, x, {1}).floats() == std::vector<double>{1, 4});
  CHECK(reduced("reduce_sum", int8, {2}, {127, 1}, {0}).integers() == Integers{-128});
}

TEST_CASE("max and min propagate NaN") {
  for (const std::vector<double>& x :
       {std::vector<double>{not_a_number, 1, 2}, {1, not_a_number, 2}, {1, 2, not_a_number}}) {
    CHECK(std::isnan(reduced("reduce_max", float64, {3}, x, {0}).floats()[0]));
    CHECK(std::isnan(reduced("reduce_min", float64, {3}, x, {0}).floats()[0]));
  }
}

TEST_CASE("a reduction of nothing is its neutral element") {
  CHECK(reduced("reduce_sum", float64, {0}, {}, {0}).floats() == std::vector<double>{0});
  CHECK(reduced("reduce_prod", float64, {0}, {}, {0}).floats() == std::vector<double>{1});
  CHECK(reduced("reduce_max", float32, {0}, {}, {0}).floats() == std::vector<double>{-infinity});
  CHECK(reduced("reduce_min", float32, {0}, {}, {0}).floats() == std::vector<double>{infinity});
  CHECK(reduced("reduce_max", int8, {0}, {}, {0}).integers() == Integers{-128});
  CHECK(reduced("reduce_min", int8, {0}, {}, {0}).integers() == Integers{127});
  CHECK(reduced("reduce_max", uint8, {0}, {}, {0}).integers() == Integers{0});
  CHECK(reduced("reduce_min", uint8, {0}, {}, {0}).integers() == Integers{255});
  CHECK(reduced("reduce_max", int64, {0}, {}, {0}).integers() == Integers{std::numeric_limits<std::int64_t>::min()});
  CHECK(reduced("reduce_max", DType::bool_, {0}, {}, {0}).integers() == Integers{0});
  CHECK(reduced("reduce_min", DType::bool_, {0}, {}, {0}).integers() == Integers{1});
}

TEST_CASE("derivatives of reductions share ties and survive zeros") {
  using namespace ops::primitives;
  CHECK(reduced_tangent(reduce_max(), {2, 5, 5, 5}, {100, 1, 2, 6}) == 3);
  CHECK(reduced_tangent(reduce_min(), {2, 5, 2}, {10, 100, 20}) == 15);
  CHECK(reduced_tangent(reduce_prod(), {0, 3, 4}, {1, 10, 100}) == 12);
  CHECK(reduced_tangent(reduce_prod(), {0, 3, 0, 2, 5}, {1, 1, 1, 1, 1}) == 0);
  CHECK(reduced_tangent(reduce_prod(), {7}, {2}) == 2);
  CHECK(reduced_tangent(reduce_max(), {}, {}) == 0);
}

TEST_CASE("argmax and argmin take the first of equal ones, NaN above all") {
  const auto arg = [](std::string_view op, const std::vector<double>& x) {
    const Shape shape{static_cast<std::int64_t>(x.size())};
    return run_reference(op, {reference_array({float64, shape, {}}, x)},
                         {{"axis", std::int64_t{0}}, {"dtype", int32}})[0]
        .integers()[0];
  };
  CHECK(arg("argmax", {1, 3, 3, 2}) == 1);
  CHECK(arg("argmin", {2, 1, 3, 1}) == 1);
  CHECK(arg("argmax", {1, not_a_number, infinity, not_a_number}) == 1);
  CHECK(arg("argmin", {1, not_a_number, -infinity}) == 1);
}

TEST_CASE("top_k descends, first of equal ones first, NaN above all") {
  const auto top = [](const std::vector<double>& x, std::int64_t k) {
    const Shape shape{static_cast<std::int64_t>(x.size())};
    return run_reference("top_k", {reference_array({float64, shape, {}}, x)}, {{"k", k}});
  };
  CHECK(top({1, 3, 2, 3}, 3)[0].floats() == std::vector<double>{3, 3, 2});
  CHECK(top({1, 3, 2, 3}, 3)[1].integers() == Integers{1, 3, 2});
  CHECK(top({1, not_a_number, infinity}, 2)[1].integers() == Integers{1, 2});
  CHECK(top({}, 0)[0].floats().empty());
}

}  // namespace lockstep::tests
