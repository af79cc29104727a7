#include <lockstep/arithmetic.h>
#include <lockstep/elementwise.h>
#include <lockstep/grids.h>
#include <lockstep/scientific/polynomials.h>

#include "tests/golden/functions/table.h"

// Polynomials, divisors, exponents, phases, matrices of blocks and of diagonals.
namespace lockstep::tests::functions {
namespace {

Lines polynomials() {
  const Input a = drawn({3}), b = drawn({5});
  const Room room{1e-4, 1e-11, "another order of sums"};
  return {
      {"polyadd", "jnp.polyadd(x, y)", {a, b}, [](A x, A y) { return polyadd(x, y); }},
      {"polysub", "jnp.polysub(x, y)", {b, a}, [](A x, A y) { return polysub(x, y); }},
      {"polymul",
       "jnp.polymul(x, y)",
       {a, b},
       [](A x, A y) { return polymul(x, y); },
       {.dtypes = inexact_numbers, .room = room}},
      {"polyder", "jnp.polyder(x, 2)", {b}, [](A x) { return polyder(x, 2); }, {.dtypes = inexact_numbers}},
      {"polyder", "jnp.zeros(1, x.dtype)", {a}, [](A x) { return polyder(x, 4); }, {.no_derivative = "a constant"}},
      {"polyint", "jnp.polyint(x, 2)", {a}, [](A x) { return polyint(x, 2); }, {.dtypes = inexact_numbers}},
      {"polyfit",
       "jnp.polyfit(x, y, 2)",
       {distinct({7}), drawn({7})},
       [](A x, A y) { return polyfit(x, y, 2); },
       {.room = room}},
      {"polyfit",
       "jnp.polyfit(x, y, 1, w=z)",
       {distinct({6}), drawn({6, 2}), drawn({6}, 0.5, 2)},
       [](A x, A y, A z) { return polyfit(x, y, 1, z); },
       {.room = room}},
      {"roots",
       "powers_of(jnp.roots(x, strip_zeros=False))",
       {given({2, -1, 0.5, 3})},
       [](A x) {
         const Array w = roots(x);
         return Arrays{sum(w * w, -1), sum(w * w * w, -1), sum(exp(w), -1)};
       },
       {.dtypes = inexact_numbers, .room = room}},
      {"poly", "jnp.poly(x)", {a}, [](A x) { return poly(x); }, {.dtypes = inexact_numbers, .room = room}},
  };
}

Lines arithmetic_parts() {
  const Input whole_a = whole({12, -18, 0, 7, 0, 35, 2147483647}), whole_b = whole({18, 12, 5, 0, 0, -21, 7});
  return {
      {"gcd", "jnp.gcd(x, y)", {whole_a, whole_b}, [](A x, A y) { return gcd(x, y); }, {.dtypes = {float32}}},
      {"lcm",
       "jnp.lcm(x, y)",
       {whole({12, -18, 0, 7, 0}), whole({18, 12, 5, 0, 0})},
       [](A x, A y) { return lcm(x, y); },
       {.dtypes = {float32}}},
      {"frexp",
       "jnp.frexp(x)",
       {given({0, 1, -0.75, 3e-20, 1e30, inf, nan, -5})},
       [](A x) { return frexp(x); },
       {.no_derivative = "JAX has none"}},
      {"ldexp",
       "jnp.ldexp(x, y)",
       {given({7, 1, -0.75, 3, 1e30, 5}), whole({5, 100, -3, 0, -120, 2})},
       [](A x, A n) { return ldexp(x, n); }},
      {"unwrap", "jnp.unwrap(x)", {drawn({2, 9}, -12, 12)}, [](A x) { return unwrap(x); }},
      {"unwrap", "jnp.unwrap(x, axis=0, period=4.0)", {drawn({5, 2}, -12, 12)}, [](A x) { return unwrap(x, 0, 4.0); }},
      {"block_diag",
       "jsp.linalg.block_diag(x, y, z)",
       {drawn({2, 3}), drawn({1, 1}), drawn({2})},
       [](A x, A y, A z) {
         return block_diag({x, y, z});
       },
       {.dtypes = inexact_numbers}},
      {"toeplitz", "jsp.linalg.toeplitz(x, y)", {drawn({3}), drawn({4})}, [](A x, A y) { return toeplitz(x, y); }},
      {"toeplitz",
       "jsp.linalg.toeplitz(x)",
       {drawn({3})},
       [](A x) { return toeplitz(x); },
       {.dtypes = inexact_numbers}},
  };
}

}  // namespace

Lines arithmetic_lines() {
  Lines lines = polynomials();
  for (const Line& line : arithmetic_parts()) lines.push_back(line);
  return lines;
}

}  // namespace lockstep::tests::functions
