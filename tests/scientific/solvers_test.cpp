#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/parallel.h>
#include <lockstep/scientific/minimize.h>
#include <lockstep/scientific/odeint.h>
#include <lockstep/scientific/solvers.h>
#include <lockstep/transforms.h>

#include "tests/api/scalar_function.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Solvers under transforms; tests/golden/functions holds their values, first derivatives and batches against JAX.
using namespace lockstep;
using tests::check_equal;
using tests::expect_error;
using tests::ScalarFunction;

namespace {

const Array dominant = array<double>({4, 1, -0.5, 0.3, 5, 1, 0.2, -1, 3}, {3, 3});
const Array right = array<double>({1, -2, 0.5});

Array definite_of(const Array& x) { return matmul(x, transpose(x)) + eye(3, float64); }
const IterationOptions close_by = {.tol = 1e-14};

struct SolverRow {
  std::string name;
  ScalarFunction f;
  Array x;
};

/// Scalar functions of all that the equation is made of.
const std::vector<SolverRow>& solver_rows() {
  static const std::vector<SolverRow> all = {
      {"cg", [](const Array& x) { return sum(exp(cg(definite_of(x), x[0] + right, close_by))); }, dominant},
      {"bicgstab", [](const Array& x) { return sum(exp(bicgstab(x, x[0] + right, close_by))); }, dominant},
      {"gmres", [](const Array& x) { return sum(exp(gmres(x, x[0] + right, close_by))); }, dominant},
      {"a solve of one's own",
       [](const Array& x) {
         const auto solve = [&](const auto&, const Array& b) { return linalg::solve(definite_of(x), b); };
         const auto product = [&](const Array& v) { return matmul(definite_of(x), v); };
         return sum(exp(custom_linear_solve(product, x[0], solve, {.symmetric = true})));
       },
       dominant},
      {"newton",
       [](const Array& x) {
         return sum(newton([&](const Array& z) { return z * exp(z) - x * x - 1.0; }, ones_like(x)));
       },
       right},
      {"bisect",
       [](const Array& x) {
         return sum(
             square(bisect([&](const Array& z) { return z * z * z + z - x; }, full_like(x, -5), full_like(x, 5))));
       },
       right},
      {"a root of several numbers",
       [](const Array& x) {
         const auto f = [&](const Array& z) { return z + 0.3 * tanh(matmul(dominant * 0.1, z)) - x; };
         const auto solve = [](const auto& g, const Array& start) {
           Array z = start;
           for (int i = 0; i < 60; ++i) z = z - g(z);
           return z;
         };
         const auto tangent_solve = [](const auto& linear, const Array& b) { return gmres(linear, b, close_by); };
         return sum(exp(custom_root(f, zeros_like(x), solve, tangent_solve)));
       },
       right},
      {"odeint",
       [](const Array& x) {
         const auto slope = [&](const Array& y, const Array& t) { return -y * y * x[1] + sin(t * x[2]); };
         const Array times = concatenate({zeros({1}, float64), expand_dims(abs(x[0]), 0)}, 0);
         return sum(odeint(slope, square(x), times, {.rtol = 1e-10, .atol = 1e-10, .max_steps = 60}));
       },
       array<double>({1, 0.7, 0.5})},
  };
  return all;
}

}  // namespace

TEST_CASE("solutions have derivatives of first and second order in what their equations capture") {
  for (const SolverRow& row : solver_rows()) {
    INFO(row.name);
    CHECK_NOTHROW(check_grads(row.f, std::tuple(row.x), {.order = 2, .tolerance = 1e-5}));
    const Array expected = grad(row.f)(row.x);
    check_equal(jit(grad(row.f))(row.x), expected, 1e-9);
    const Array both = stack({row.x, row.x * 1.01}, 0);
    const Array batch = jit(vmap(grad(row.f)))(both);
    check_equal(batch[0], expected, 1e-8);
    check_equal(batch[1], grad(row.f)(row.x * 1.01), 1e-8);
  }
}

TEST_CASE("systems of trees, of one number and of none") {
  using Pair = std::pair<Array, Array>;
  const auto a = [](const Pair& x) { return Pair(x.first * 2 + x.second, x.second * 3 + x.first); };
  const Pair x = cg(a, Pair(full({}, 5.0, float64), full({}, 10.0, float64)), {.tol = 1e-14});
  CHECK(x.first.item<double>() == doctest::Approx(1));
  CHECK(x.second.item<double>() == doctest::Approx(3));
  for (const auto& solve : std::vector<std::function<Array(const Array&, const Array&)>>{
           [](const Array&m, const Array&b) { return cg(m, b); },
           [](const Array&m, const Array&b) { return bicgstab(m, b); },
           [](const Array&m, const Array&b) { return gmres(m, b); }}) {
    check_equal(solve(full({1, 1}, 4.0f), full({1}, 2.0f)), full({1}, 0.5f));
    check_equal(solve(eye(3), zeros({3})), zeros({3}));
    CHECK(solve(zeros({0, 0}), zeros({0})).shape() == Shape{0});
  }
}

TEST_CASE("systems cut over replicas are solved along with everything else") {
  const Mesh mesh({{"batch", 2}}, devices("cpu:0"));
  const auto loss = [&](const Array& m, const Array& rows) {
    const auto local = [m](const Array& b) { return psum(sum(square(cg(definite_of(m), b[0], close_by))), {"batch"}); };
    return pmap(local, {.mesh = mesh, .in = {sharded("batch")}, .out = {replicated}})(rows);
  };
  const Array both = stack({right, right * 2}, 0);
  const auto plain = [&](const Array& m) {
    return sum(square(cg(definite_of(m), both[0], close_by))) + sum(square(cg(definite_of(m), both[1], close_by)));
  };
  const auto cut = [&](const Array& m) { return loss(m, both); };
  check_equal(cut(dominant), plain(dominant), 1e-10);
  check_equal(grad(cut)(dominant), grad(plain)(dominant), 1e-9);
}

TEST_CASE("equations that vary over replicas while their start or right side does not") {
  using Function = std::function<Array(const Array&)>;
  const Array t = array<double>({0.5, -1, 2, 0.3});
  const auto cubic = [](const Array& v) { return [v](const Array& x) { return x * x * x + x - v; }; };
  const auto factor = [](const Array& v) { return [v](const Array& x) { return x * (2.0 + sin(v)); }; };
  const Function of_newton = [&](const Array& v) { return newton(cubic(v), zeros({2}, float64)); };
  const Function of_bisect = [&](const Array& v) {
    return bisect(cubic(v), full({2}, -10.0, float64), full({2}, 10.0, float64));
  };
  const Function of_gmres = [&](const Array& v) { return gmres(factor(v), ones({2}, float64), close_by); };
  const Function of_bicgstab = [&](const Array& v) { return bicgstab(factor(v), ones({2}, float64), close_by); };
  const Function of_cg = [&](const Array& v) { return cg(factor(v), ones({2}, float64), close_by); };
  const Function of_custom = [&](const Array& v) {
    const auto divide = [](const Function& matvec, const Array& b) { return b / matvec(ones({2}, float64)); };
    return custom_linear_solve(factor(v), ones({2}, float64), divide, divide);
  };
  const Mesh mesh({{"batch", 2}}, devices("cpu:0-1"));
  const PmapOptions cut{.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}};
  for (const Function& f : {of_newton, of_bisect, of_gmres, of_bicgstab, of_cg, of_custom}) {
    const auto loss = [&f](const Array& v) { return sum(square(f(v))); };
    const Function gradient = [&](const Array& v) { return grad(loss)(v); };
    const Function twice = [&](const Array& v) { return grad([&](const Array& w) { return sum(gradient(w)); })(v); };
    // A map and a named batch give what the halves give.
    for (const Function& g : {f, gradient, twice}) {
      const Array halves = concatenate({g(slice_in_dim(t, 0, 2, 0)), g(slice_in_dim(t, 2, 4, 0))}, 0);
      check_equal(pmap(g, cut)(t), halves, 1e-9);
      check_equal(reshape(vmap(g, {.axis_name = "rows"})(reshape(t, {2, 2})), {4}), halves, 1e-9);
      const auto chosen = [&](const Array& v) {
        return cond(
            sum(v) < 100.0, g, [](const Array& w) { return w; }, v);
      };
      check_equal(pmap(chosen, cut)(t), halves, 1e-9);  // no collective stands in the branch
    }
    const auto outside = [&](const Array& v) { return sum(square(pmap(f, cut)(v))); };
    check_equal(grad(outside)(t), pmap(gradient, cut)(t), 1e-9);
  }
}

TEST_CASE("roots that are none, and at the ends") {
  const auto f = [](const Array& z) { return z * z - 4.0; };
  check_equal(bisect(f, array<double>({0, 2, -3, 3}), array<double>({3, 5, 0, 4})),
              array<double>({2, 2, -2, std::nan("")}), 1e-12);
  CHECK(newton(f, full({}, 1.0f)).item<float>() == doctest::Approx(2));
  CHECK(bisect(f, zeros({0}), zeros({0})).shape() == Shape{0});
}

TEST_CASE("a trajectory that its steps do not reach is NaN from there on") {
  const Array ys = odeint([](const Array& y, const Array&) { return -y; }, full({}, 1.0, float64),
                          array<double>({0, 0.1, 100}), {.max_steps = 8});
  CHECK(ys.shape() == Shape{3});
  CHECK(ys[1].item<double>() == doctest::Approx(std::exp(-0.1)));
  CHECK(std::isnan(ys[2].item<double>()));
}

TEST_CASE("a minimum of a tree, and one that is there from the start") {
  using Pair = std::pair<Array, Array>;
  const auto bowl = [](const Pair& x) { return sum(square(x.first - 1.0)) + 3.0 * sum(square(x.second + x.first)); };
  const Minimum<Pair> found = minimize(bowl, Pair(zeros({2}, float64), ones({2}, float64)), {.tolerance = 1e-8});
  check_equal(found.x.first, ones({2}, float64), 1e-7);
  check_equal(found.x.second, full({2}, -1.0, float64), 1e-7);
  CHECK(found.converged.item<bool>());
  CHECK(found.inverse.shape() == Shape{4, 4});
  const Minimum<Array> there = minimize([](const Array& x) { return sum(square(x)); }, zeros({2}));
  CHECK(there.iterations.item<int>() == 0);
  CHECK(minimize([](const Array& x) { return sum(x); }, zeros({0})).converged.item<bool>());
  const Minimum<Array> endless = minimize([](const Array& x) { return sum(x); }, zeros({1}), {.max_iterations = 5});
  CHECK(!endless.converged.item<bool>());
}

TEST_CASE("messages of solvers say what to write") {
  const auto same = [](const Array& x) { return x; };
  const auto shorter = [](const Array& x) { return sum(x); };
  const auto give = [](const auto&, const Array& b) { return b; };
  expect_error<DtypeError>([&] { cg(same, ones({2}, int32)); }, "the unknowns is i32[2]", "convert it");
  expect_error<ShapeError>([&] { cg(shorter, ones({2})); }, "custom_linear_solve: matvec's result", "f32[]");
  expect_error<ShapeError>(
      [&] { custom_linear_solve(same, ones({2}), [](const auto&, const Array& b) { return sum(b); }); },
      "the result of solve", "expected f32[2]");
  expect_error<ShapeError>([&] { custom_root(shorter, ones({2}), give, give); }, "custom_root: the function's result");
  expect_error<TraceError>(
      [&] { grad([&](const Array& b) { return sum(custom_linear_solve(same, b, give)); })(ones({2})); },
      "no way to solve with the adjoint", "transpose_solve");
  expect_error<ValueError>([&] { cg(same, ones({2}), {.tol = -1}); }, "tol is -1", "expected none below 0");
  expect_error<StateError>([&] { cg(same, ones({2}), ones({3}), same); }, "the start");
  expect_error<ValueError>([&] { newton(same, ones({2}), {.tolerance = -1}); }, "tolerance is -1");
  expect_error<ShapeError>(
      [&] {
        odeint([](const Array& y, const Array&) { return y; }, ones({2}), ones({2, 2}));
      },
      "times are f32[2,2]");
  expect_error<StateError>([&] { odeint([](const Array& y, const Array&) { return sum(y); }, ones({2}), ones({2})); },
                           "odeint: the function's result");
  expect_error<DtypeError>([&] { odeint([](const Array& y, const Array&) { return y; }, ones({2}, int32), ones({2})); },
                           "expected floats");
  expect_error<ValueError>(
      [&] { odeint([](const Array& y, const Array&) { return y; }, ones({2}), ones({2}), {.max_steps = 0}); },
      "max_steps 0");
  expect_error<ShapeError>([&] { minimize(same, ones({2})); }, "minimize: the function gives f32[2]", "sum or mean");
  expect_error<DtypeError>([&] { minimize(shorter, ones({2}, int32)); }, "expected floats");
  expect_error<ValueError>([&] { minimize(shorter, ones({2}), {.tolerance = -1}); }, "tolerance is -1");
}
