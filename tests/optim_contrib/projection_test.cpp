#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/optim_contrib.h>
#include <lockstep/scientific.h>

#include "tests/optim/values.h"
#include "tests/support/expect_error.h"

// Projections onto sets, and least squares without negative numbers: the values of Optax 0.2.8 in float64.

using namespace lockstep;
using tests::expect_error;
using tests::Values;

namespace {

Array given() { return array(Values{1.5, -0.7, 0.3, 0.3, -2.0, 0.9}); }
Array normal() { return array(Values{0.5, 1.0, -1.0, 2.0, 0.25, 0.1}); }

void check_values(const Array& found, const Values& expected) {
  const Values values = convert(reshape(found, {-1}), float64).to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(values[i] - expected[i]) <= 1e-10 * (1 + std::abs(expected[i])));
  }
}

}  // namespace

TEST_CASE("projections are Optax'") {
  const Array x = given(), a = normal();
  check_values(projection_simplex(x, 2.0),
               {1.25, 0.0, 0.0500000000000001, 0.0500000000000001, 0.0, 0.6500000000000001});
  check_values(projection_simplex(x), {0.8, 0.0, 0.0, 0.0, 0.0, 0.20000000000000007});
  check_values(projection_l1_ball(x, 2.5),
               {0.8500000000000001, -0.049999999999999975, 0.0, 0.0, -1.35, 0.2500000000000001});
  check_values(projection_l1_ball(x, 25.0), x.to_vector<double>());
  check_values(projection_l1_sphere(x, 9.0),
               {2.0500000000000003, -1.25, 0.8500000000000002, 0.8500000000000002, -2.55, 1.4500000000000002});
  check_values(projection_l2_ball(x, 1.5), {0.8092687514238072, -0.3776587506644433, 0.16185375028476143,
                                            0.16185375028476143, -1.0790250018984096, 0.4855612508542843});
  check_values(projection_l2_ball(x, 15.0), x.to_vector<double>());
  check_values(projection_l2_sphere(x, 1.5), {0.8092687514238072, -0.3776587506644433, 0.16185375028476143,
                                              0.16185375028476143, -1.0790250018984096, 0.4855612508542843});
  check_values(projection_linf_ball(x, 0.8), {0.8, -0.7, 0.3, 0.3, -0.8, 0.8});
  check_values(projection_box(x, full_like(x, -0.5), ones_like(x)), {1.0, -0.5, 0.3, 0.3, -0.5, 0.9});
  check_values(projection_vector(x, a), {-0.004744958481613283, -0.009489916963226565, 0.009489916963226565,
                                         -0.01897983392645313, -0.0023724792408066414, -0.0009489916963226566});
  check_values(projection_hyperplane(x, a, 0.4), {1.5363780150257018, -0.6272439699485962, 0.22724396994859627,
                                                  0.4455120601028074, -1.981810992487149, 0.9072756030051404});
  check_values(projection_halfspace(x, a, -0.4), {1.4731119019375247, -0.7537761961249505, 0.3537761961249506,
                                                  0.1924476077500988, -2.0134440490312375, 0.894622380387505});
  check_values(projection_halfspace(x, a, 40.0), x.to_vector<double>());
}

TEST_CASE("projections of large, small and 16-bit vectors") {
  const Array x = convert(array({0.5F, 0.75F, 0.25F, 0.0F}), float32);
  for (const float scale : {1e8F, 1e30F}) {
    check_values(projection_simplex(x * scale), {0, 1, 0, 0});
    check_values(projection_l1_ball(-x * scale), {0, -1, 0, 0});
    check_values(projection_l2_sphere(array({3.0F, 4.0F}) * scale, 5.0) * 1e-4, {3e-4, 4e-4});
    check_values(projection_l2_ball(array({3.0F, 4.0F}) * scale, 5.0) * 1e-4, {3e-4, 4e-4});
  }
  check_values(projection_l2_sphere(array({3e-30F, 4e-30F}), 5.0) * 1e-4, {3e-4, 4e-4});
  CHECK(projection_l2_ball(array({3e-30F, 4e-30F})).to_vector<float>() == std::vector<float>{3e-30F, 4e-30F});
  const Array many = convert(ones({1000}), bfloat16), half = convert(array({300.0F, 400.0F}), float16);
  CHECK(all(projection_simplex(many, 1000.0) == many).item<bool>());
  CHECK(projection_l2_ball(half, 5.0).dtype() == float16);
  check_values(projection_l2_ball(half, 5.0), {3, 4});
  check_values(projection_vector(half, half), {300, 400});
  check_values(projection_hyperplane(half, half, 0.0), {0, 0});
}

TEST_CASE("projections have derivatives, compile, and take trees") {
  // Without ties, at which the derivative has two sides.
  const std::tuple<Array> at(array(Values{1.5, -0.7, 0.31, 0.2, -2.0, 0.9}));
  check_grads([](const Array& x) { return projection_simplex(x, 2.0); }, at);
  check_grads([](const Array& x) { return projection_l1_ball(x, 2.5); }, at);
  check_grads([](const Array& x) { return projection_l2_ball(x, 1.5); }, at);
  check_grads([](const Array& x) { return projection_halfspace(x, normal(), -0.4); }, at);
  const Array scale = array(2.0);
  const auto onto = [&](const Array& x) { return projection_simplex(x, scale); };
  check_values(jit(onto)(given()), onto(given()).to_vector<double>());
  const Array rows = stack({given(), normal()}, 0);
  check_values(vmap(onto)(rows)[1], onto(normal()).to_vector<double>());
  const Tree tree =
      Tree::dict({{"a", Tree(array(Values{1.5, -0.7, 0.3}))}, {"b", Tree(array(Values{0.3, -2.0, 0.9}))}});
  const Tree projected = projection_l1_ball(tree, 2.5);
  check_values(concatenate({projected.at("a").array(), projected.at("b").array()}, 0),
               {0.8500000000000001, -0.049999999999999975, 0.0, 0.0, -1.35, 0.2500000000000001});
  CHECK(projection_simplex(array<int>({3, 1})).dtype() == float32);
}

TEST_CASE("what projections do not take") {
  expect_error<DtypeError>([] { projection_simplex(complex(ones({2}), ones({2}))); }, "projections: a leaf is c64[2]");
  expect_error<ShapeError>([] { projection_l2_ball(ones({2}), ones({2})); },
                           "projections: the scale or offset is f32[2]; give a number or a scalar");
  expect_error<ShapeError>([] { projection_vector(ones({2}), ones({3})); },
                           "projections: the vector has 3 elements, the tree 2");
}

TEST_CASE("least squares without negative numbers are Optax'") {
  const Array a = reshape(array(Values{1, 2, -1, 3, 4, 0.5, -1, 0.5, 2, 0.3, -2, 1}), {4, 3});
  const Array b = array(Values{5, 6, -1, 2});
  check_values(nnls(a, b, {.iterations = 50}), {2.1200987587526394, 0.09310738121625431, 0.10168781818595073});
  check_values(nnls(a, stack({b, -b}, 1), {.iterations = 20, .norm_bound = 40.0}),
               {2.2088183812035784, 0.0, 0.0399596434636794, 0.0, 0.12133321400228315, 0.3157425524678873});
  check_grads([&](const Array& x) { return nnls(a, x, {.iterations = 20}); }, std::tuple<Array>(b));
  expect_error<ShapeError>([&] { nnls(a, ones({3})); }, "nnls: a is f64[4,3], b f32[3]; expected [m, n]");
  expect_error<DtypeError>([&] { nnls(complex(a, a), b); }, "nnls: a is c128[4,3]");
  expect_error<ValueError>([&] { nnls(a, b, {.iterations = -1}); }, "nnls: iterations is -1");
}
