#include <lockstep/elementwise.h>
#include <lockstep/linalg.h>
#include <lockstep/scientific/minimize.h>
#include <lockstep/scientific/odeint.h>
#include <lockstep/scientific/solvers.h>

#include "tests/golden/functions/table.h"

// Solutions of equations, with derivatives that come from the equation.
namespace lockstep::tests::functions {
namespace {

const Room converged{1e-4, 1e-9, "iterations end near the solution"};
const Options iterated = {.dtypes = {float64, complex128}, .room = converged};
const Input matrix = drawn({4, 4}), vector = drawn({4});

Array definite_matrix(A a) { return matmul(a, conj(swapaxes(a, -1, -2))) + eye(a.dim(-1), a.dtype()); }
Array general(A a) { return a + 4 * eye(a.dim(-1), a.dtype()); }
Array cubic(A z, A x, A y) { return z * z * z + (x * x + 1) * z - y; }

Lines linear() {
  const auto product = [](A a) { return [a](A v) { return matmul(a, v); }; };
  return {
      {"cg",
       "jsp.sparse.linalg.cg(definite(x), y, tol=1e-13)[0]",
       {matrix, vector},
       [](A x, A y) { return cg(definite_matrix(x), y, {.tol = 1e-13}); },
       iterated},
      {"cg",
       "jsp.sparse.linalg.cg(definite(x), y, tol=1e-13, x0=y, M=lambda v: v / 2)[0]",
       {matrix, vector},
       [product](A x, A y) {
         return cg(product(definite_matrix(x)), y, Array(y), [](A v) { return v / 2; }, {.tol = 1e-13});
       },
       iterated},
      {"bicgstab",
       "jsp.sparse.linalg.bicgstab(general(x), y, tol=1e-13)[0]",
       {matrix, vector},
       [](A x, A y) { return bicgstab(general(x), y, {.tol = 1e-13}); },
       iterated},
      {"gmres",
       "jsp.sparse.linalg.gmres(general(x), y, tol=1e-13)[0]",
       {matrix, vector},
       [](A x, A y) { return gmres(general(x), y, {.tol = 1e-13}); },
       iterated},
      {"gmres",
       "jsp.sparse.linalg.gmres(general(x), y, tol=1e-13, restart=2, M=lambda v: v / 4)[0]",
       {matrix, vector},
       [product](A x, A y) {
         return gmres(product(general(x)), y, zeros_like(y), [](A v) { return v / 4; }, {.tol = 1e-13, .restart = 2});
       },
       iterated},
      {"custom_linear_solve",
       "lax.custom_linear_solve(lambda v: general(x) @ v, y, lambda f, b: jnp.linalg.solve(general(x), b), lambda f, "
       "b: "
       "jnp.linalg.solve(general(x).T, b))",
       {matrix, vector},
       [product](A x, A y) {
         const Array a = general(x);
         return custom_linear_solve(
             product(a), y, [&](const auto&, A b) { return linalg::solve(a, b); },
             [&](const auto&, A b) { return linalg::solve(transpose(a), b); });
       },
       {.dtypes = floats + complexes, .room = converged}},
  };
}

Lines root_lines() {
  const Input x = drawn({3}), y = drawn({3}, -2, 2);
  const std::string_view jax = "cubic_root(x, y)";
  const Options plain = {.room = {1e-5, 1e-13, "the last digits"}};
  return {
      {"bisect",
       jax,
       {x, y},
       [](A a, A b) { return bisect([&](A z) { return cubic(z, a, b); }, full_like(a, -3), full_like(a, 3)); },
       plain},
      {"newton",
       jax,
       {x, y},
       [](A a, A b) { return newton([&](A z) { return cubic(z, a, b); }, zeros_like(a)); },
       plain},
      {"custom_root",
       jax,
       {x, y},
       [](A a, A b) {
         const auto f = [&](A z) { return cubic(z, a, b); };
         return custom_root(
             f, zeros_like(a), [&](const auto&, A start) { return newton(f, start); },
             [](const auto& linear, A right) { return right / linear(ones_like(right)); });
       },
       plain},
  };
}

Lines trajectories() {
  const Room close{1e-4, 1e-8, "other steps"};
  return {
      {"odeint",
       "pendulum(x, y)",
       {drawn({2}), given({0.7, 1.3})},
       [](A start, A a) {
         const auto slope = [&](A y, A t) { return stack({y[1], a[0] * cos(t) - sin(y[0]) * a[1] - 0.1 * y[1]}, 0); };
         return odeint(slope, start, array<double>({0, 0.5, 0.7, 2}), {.rtol = 1e-10, .atol = 1e-10});
       },
       {.dtypes = {float64}, .room = close}},
      {"odeint",
       "jax.experimental.ode.odeint(lambda y, t: y * t, x, jnp.array([0.0, 1.0], x.dtype))",
       {drawn({2})},
       [](A start) {
         return odeint([](A y, A t) { return y * t; }, start, convert(array<double>({0, 1}), start.dtype()));
       },
       {.room = close}},
      {"odeint",
       "jax.experimental.ode.odeint(lambda y, t: -y, x, jnp.array([1.0]))",
       {drawn({0})},
       [](A start) { return odeint([](A y, A) { return -y; }, start, array<double>({1})); }},
      {"minimize",
       "valley_floor(x)",
       {drawn({3})},
       [](A start) {
         const auto valley = [](A x) {
           const Array a = slice(x, {0}, {2}), b = slice(x, {1}, {3});
           return sum(100.0 * square(b - a * a) + square(1.0 - a));
         };
         const Minimum<Array> found = minimize(valley, start, {.tolerance = 1e-9});
         return Arrays{found.x, found.converged};
       },
       {.dtypes = {float64}, .no_derivative = "a while_loop has none in reverse", .room = {0, 1e-8, "other steps"}}},
  };
}

}  // namespace

Lines solver_lines() {
  Lines lines;
  for (const Lines& part : {linear(), root_lines(), trajectories()})
    lines.insert(lines.end(), part.begin(), part.end());
  return lines;
}

}  // namespace lockstep::tests::functions
