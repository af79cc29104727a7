#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/optim_contrib.h>

#include "tests/optim/values.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Norms beyond the range of their squares, and optimizers of parameters narrower than float32.

using namespace lockstep;
using tests::check_close;
using tests::expect_error;
using tests::values;
using tests::Values;

namespace {

Tree leaf(const Values& v, DType dtype = float32) { return Tree::dict({{"a", Tree(convert(array(v), dtype))}}); }

double norm_of(const Tree& tree) { return convert(optim::global_norm(tree), float64).item<double>(); }

/// The update of clip_by_global_norm(1).
Values clipped(const Tree& gradients) {
  const auto clip = optim::clip_by_global_norm(1.0);
  return values(clip.update(gradients, Tree(), gradients).first.at("a").array());
}

/// Parameters after updates by the same gradients.
Array trained_parameters(const optim::GradientTransformation& optimizer, const Array& start, const Array& gradient,
                         int steps) {
  Tree params = Tree::dict({{"a", Tree(start)}});
  Tree state = optimizer.init(params);
  for (int i = 0; i < steps; ++i) {
    auto [updates, next] = optimizer.update(Tree::dict({{"a", Tree(gradient)}}), state, params);
    params = optim::apply_updates(params, updates);
    state = std::move(next);
  }
  return params.at("a").array();
}

}  // namespace

TEST_CASE("the global norm has a value wherever the norm has one, though its squares have none") {
  // Exact: n * sqrt(2), n * 5 / 3.
  for (const double n :
       {1e20, 1e-20, 1e-25, 1e-30, 1e38, 1.5e38, 1e-38, 1e-40, 1.0, 1e10, 1e-12, 1e-13, 7e18, 1.5e19}) {
    CAPTURE(n);
    const double held = static_cast<double>(static_cast<float>(n));
    CHECK(norm_of(leaf({n, n})) == doctest::Approx(held * std::sqrt(2.0)).epsilon(1e-5));
    CHECK(norm_of(leaf({n, 0, 0})) == doctest::Approx(held).epsilon(1e-5));
    CHECK(norm_of(Tree::dict({{"a", Tree(full({}, n))}, {"b", Tree(full({3}, n))}})) ==
          doctest::Approx(2 * held).epsilon(1e-5));
  }
  for (const double n : {1e200, 1e-200, 1e300, 1e-310, 1.0}) {
    CAPTURE(n);
    CHECK(norm_of(leaf({n, -n}, float64)) / n == doctest::Approx(std::sqrt(2.0)).epsilon(1e-12));
  }
  CHECK(norm_of(leaf({300, 400}, float16)) == doctest::Approx(500));
  CHECK(norm_of(leaf({300, 400}, bfloat16)) == doctest::Approx(500).epsilon(0.01));
}

TEST_CASE("the global norm of zeros is 0, of an infinity inf, of a NaN NaN, of nothing 0") {
  CHECK(norm_of(leaf({0, 0})) == 0);
  CHECK(std::isinf(norm_of(leaf({1, INFINITY}))));
  CHECK(std::isnan(norm_of(leaf({1, NAN}))));
  CHECK(norm_of(Tree::dict({})) == 0);
  const Array z = array({std::complex<float>(3, 4)});
  CHECK(norm_of(Tree(z)) == doctest::Approx(5));
}

TEST_CASE("the gradient of the global norm is that of the root of the squares") {
  const auto norm = [](const Array& x) { return optim::global_norm(Tree(x)); };
  check_close(grad(norm)(array({3.F, -4.F})), {2}, {0.6, -0.8});
  check_close(grad(norm)(array({3e20F, -4e20F})), {2}, {0.6, -0.8});
  check_close(grad(norm)(array({3e-25F, -4e-25F})), {2}, {0.6, -0.8});
}

TEST_CASE("clipping by the global norm scales what it clips to that norm, whatever the scale") {
  const double half = std::sqrt(0.5);
  for (const double n : {1e20, 1e30, 3e38, 1.0}) {
    CAPTURE(n);
    for (const double x : clipped(leaf({n, n}))) CHECK(x == doctest::Approx(half).epsilon(1e-5));
  }
  for (const double x : clipped(leaf({1e200, -1e200}, float64))) CHECK(std::abs(x) == doctest::Approx(half));
  // 60000 of float16: the norm 84853 and the factor 1e-5 are beyond it.
  for (const double x : clipped(leaf({60000, 60000}, float16))) CHECK(x == doctest::Approx(half).epsilon(1e-3));
  check_close(optim::clip_by_global_norm(1.0).update(leaf({1e-25, 0}), Tree(), {}).first.at("a").array(), {2},
              {1e-25, 0}, 1e-30);
  CHECK(clipped(leaf({0, 0})) == Values{0, 0});
  const Values infinite = clipped(leaf({1, INFINITY}));
  CHECK(infinite[0] == 0);
  CHECK(std::isnan(infinite[1]));
}

TEST_CASE("slots of narrow parameters are float32, and so are updates") {
  for (const DType dtype : {float16, bfloat16}) {
    CAPTURE(name(dtype));
    const Tree params = leaf({1, 2}, dtype);
    for (const auto& optimizer :
         {optim::adam(0.1), optim::adamw(0.1), optim::sgd(0.1, 0.9), optim::sgd(0.1, 0.9, true), optim::sgd(0.1)}) {
      const Tree state = optimizer.init(params);
      for (const Array& slot : state.leaves()) CHECK((slot.dtype() == float32 || slot.dtype() == int32));
      const auto [updates, next] = optimizer.update(params, state, params);
      CHECK(updates.at("a").array().dtype() == float32);
      CHECK(optim::apply_updates(params, updates).at("a").array().dtype() == dtype);
      for (std::size_t i = 0; i < state.size(); ++i) {
        CHECK(state.leaves()[i].dtype() == next.leaves()[i].dtype());
      }
    }
  }
}

TEST_CASE("adam of float16 stays finite where a gradient is 0 and moves where its square is below float16") {
  // A first step of Adam is -rate * g / (|g| + epsilon).
  const Array start = convert(array(Values{1, 1, 1, 1}), float16);
  const Array gradient = convert(array(Values{0, 1e-4, -6e-8, 300}), float16);
  const Values after = values(trained_parameters(optim::adam(0.125), start, gradient, 1));
  CHECK(after[0] == 1);
  CHECK(after[1] == doctest::Approx(0.875).epsilon(1e-3));
  CHECK(after[2] == doctest::Approx(1 + 0.125 * 5.96e-8 / (5.96e-8 + 1e-8)).epsilon(1e-3));
  CHECK(after[3] == doctest::Approx(0.875).epsilon(1e-3));
  for (const double x : values(trained_parameters(optim::adam(0.125), start, gradient, 20))) CHECK(std::isfinite(x));
}

TEST_CASE("an update of narrow parameters is rounded once") {
  // 1 + 2^-8 + 2^-16 lies above the half between the bfloat16 numbers 1 and 1 + 2^-7; 2^-8 + 2^-16 rounded first is 2^-8,
  // and 1 + 2^-8 is rounded to even, 1.
  const Array one = full({1}, 1.0, bfloat16);
  const Tree sum = optim::apply_updates(Tree(one), Tree(full({1}, 0x1p-8 + 0x1p-16)));
  CHECK(values(sum.array()) == Values{1 + 0x1p-7});
  // The learning rate is not rounded to bfloat16: 100 * 0.0101 = 1.01, which is nearest to 1.0078125.
  const Array moved = trained_parameters(optim::sgd(0.0101), full({1}, 0.0, bfloat16), full({1}, -100.0, bfloat16), 1);
  CHECK(values(moved) == Values{1.0078125});
}

TEST_CASE("momentum of bfloat16 reaches its limit") {
  // v = 0.999 v + 1 tends to 1000; in bfloat16 it would stay where 0.001 v is less than half a step.
  Tree state = optim::trace(0.999).init(leaf({0}, bfloat16));
  for (int i = 0; i < 9000; ++i) state = optim::trace(0.999).update(leaf({1}, bfloat16), state, {}).second;
  CHECK(values(state.at("a").array())[0] == doctest::Approx(1000).epsilon(1e-3));
}

TEST_CASE("an update is of its parameter's shape and no more than its dtype holds; the leaf is named") {
  const auto leaf = [](Array x) { return Tree::dict({{"layer", Tree::dict({{"w", Tree(std::move(x))}})}}); };
  const Tree whole = leaf(array({1, 2, 3})), real = leaf(ones({3}));
  // Optax cuts 0.5 off and broadcasts.
  expect_error<DtypeError>(
      [&] { optim::apply_updates(whole, leaf(full({3}, 0.5))); },
      "[apply_updates] leaf 'layer/w' is i32[3], its update f32[3], of which it would keep a part");
  expect_error<DtypeError>([&] { optim::apply_updates(real, leaf(complex(ones({3}), ones({3})))); }, "leaf 'layer/w'",
                           "convert it to a complex dtype");
  expect_error<ShapeError>([&] { optim::apply_updates(leaf(ones({1})), real); },
                           "leaf 'layer/w' is f32[1], its update f32[3]; expected one shape");
  expect_error<ShapeError>([&] { optim::apply_updates(real, leaf(ones({}))); }, "its update f32[]");
  CHECK(optim::apply_updates(whole, whole).at("layer/w").array().to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{2, 4, 6});
}

TEST_CASE("gradients and slots of another shape than the parameter's are refused, leaf by leaf") {
  const auto leaf = [](Array x) { return Tree::dict({{"w", Tree(std::move(x))}}); };
  const Tree params = leaf(ones({3})), wrong = leaf(ones({1}));
  const std::vector<optim::GradientTransformation> all = {optim::adam(0.1),
                                                          optim::sgd(0.1, 0.9),
                                                          optim::lion(0.1),
                                                          optim::rmsprop(0.1),
                                                          optim::adagrad(0.1),
                                                          optim::adamax(0.1),
                                                          optim::nadam(0.1),
                                                          optim::yogi(0.1),
                                                          optim::ema(0.9),
                                                          optim::adadelta(0.1),
                                                          optim::radam(0.1),
                                                          optim::add_decayed_weights(0.1),
                                                          optim::amsgrad(0.1),
                                                          optim::adabelief(0.1),
                                                          optim::average_parameters(0.9),
                                                          optim::lamb(0.1),
                                                          optim::prodigy(),
                                                          optim::lookahead(optim::sgd(0.1), 2, 0.5),
                                                          optim::rprop(0.1),
                                                          optim::schedule_free_sgd(0.1)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const Tree state = all[i].init(params);
    expect_error<ShapeError>([&] { all[i].update(wrong, state, params); }, "leaf 'w'", "expected one shape");
  }
  expect_error<ShapeError>([&] { projection_box(leaf(ones({1})), params, params); }, "[3]");
}
