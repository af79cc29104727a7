#include <lockstep/elementwise.h>
#include <lockstep/linalg.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>

#include "tests/golden/functions/table.h"

// Derivatives where a function has a kink, a tie or a limit.
namespace lockstep::tests::functions {

Lines kink_lines() {
  constexpr std::string_view of_abs = "the derivative of |x| at 0 is 0 here, as in PyTorch, and 1 in JAX";
  const Input zeros = given({0, 0, 0}), ties = given({1, 2, 2, 2, -1, 1}), level = given({3, 3, 3, 1, 2, 3}, {2, 3});
  const Input some = given({0, 0, 2, -1}), others = given({0, 3, 2, 4}),
              masked = given({-inf, -inf, -inf, 0, -inf, 1}, {2, 3});
  return {
      {"abs", "jnp.abs(x)", {given({0, -0.0, 1})}, [](A x) { return abs(x); }, {.no_derivative = of_abs}},
      {"sign", "jnp.sign(x)", {given({0, 2})}, [](A x) { return sign(x); }},
      {"sqrt", "jnp.sqrt(x)", {given({0, 4})}, [](A x) { return sqrt(x); }},
      {"maximum", "jnp.maximum(x, y)", {some, others}, [](A x, A y) { return maximum(x, y); }},
      {"minimum", "jnp.minimum(x, 0)", {some}, [](A x) { return minimum(x, 0); }},
      {"atan2", "jnp.arctan2(x, y)", {given({0, 1}), given({2, 0})}, [](A x, A y) { return atan2(x, y); }},
      {"power",
       "jnp.power(x, y)",
       {given({0, 0, 0, 2, -2}), given({1, 2, 3, 0, 2})},
       [](A x, A y) { return power(x, y); }},
      {"power", "jnp.power(x, 2)", {some}, [](A x) { return power(x, 2); }},
      {"power", "jnp.power(x, 0)", {some}, [](A x) { return power(x, 0); }},
      {"power", "x ** y", {some, whole({0, 1, 2, 3})}, [](A x, A y) { return power(x, y); }},
      {"xlogy", "special.xlogy(x, y)", {given({0, 0, 1}), given({0.5, 2, 1})}, [](A x, A y) { return xlogy(x, y); }},
      {"xlog1py",
       "special.xlog1py(x, y)",
       {given({0, 0, 1}), given({0.5, 2, 1})},
       [](A x, A y) { return xlog1py(x, y); }},
      {"logaddexp",
       "jnp.logaddexp(x, y)",
       {given({1, -inf, 0}), given({1, 0, -inf})},
       [](A x, A y) { return logaddexp(x, y); }},
      {"hypot", "jnp.hypot(x, y)", {given({3, 0, -2}), given({0, 4, 2})}, [](A x, A y) { return hypot(x, y); }},
      {"fmax", "jnp.fmax(x, y)", {given({1, nan, 2}), given({1, 2, nan})}, [](A x, A y) { return fmax(x, y); }},
      {"fmin", "jnp.fmin(x, y)", {given({1, nan, 2}), given({1, 2, nan})}, [](A x, A y) { return fmin(x, y); }},
      {"remainder",
       "jnp.remainder(x, y)",
       {given({4, -4, 3}), given({2, 2, -2})},
       [](A x, A y) { return remainder(x, y); }},
      {"floor_divide",
       "jnp.floor_divide(x, y)",
       {given({4, -4, 3}), given({2, 2, -2})},
       [](A x, A y) { return floor_divide(x, y); }},
      {"nan_to_num", "jnp.nan_to_num(x)", {given({nan, inf, 1})}, [](A x) { return nan_to_num(x); }},
      {"where", "jnp.where(x > 0, jnp.log(x), 0)", {given({2, 1})}, [](A x) { return where(x > 0, log(x), 0); }},
      {"clip",
       "jnp.clip(x, y, z)",
       {given({1, 1, 2, 0}), given({1, 0, 0, 0}), given({2, 1, 1, 0})},
       [](A x, A y, A z) { return clip(x, y, z); }},
      {"max", "jnp.max(x)", {ties}, [](A x) { return max(x); }},
      {"min", "jnp.min(x, 1)", {level}, [](A x) { return min(x, Axes{1}); }},
      {"ptp", "jnp.ptp(x)", {ties}, [](A x) { return ptp(x); }},
      {"sort", "jnp.sort(x)", {ties}, [](A x) { return sort(x); }},
      {"median", "jnp.median(x)", {ties}, [](A x) { return median(x); }},
      {"top_k", "lax.top_k(x, 2)[0]", {ties}, [](A x) { return top_k(x, 2).first; }},
      {"prod", "jnp.prod(x)", {given({0, 2, 3})}, [](A x) { return prod(x); }},
      {"prod", "jnp.prod(x)", {given({0, 0, 3})}, [](A x) { return prod(x); }},
      {"var", "jnp.var(x, 1)", {level}, [](A x) { return var(x, Axes{1}); }},
      {"logsumexp", "special.logsumexp(x, 1)", {masked}, [](A x) { return logsumexp(x, Axes{1}); }},
      {"softmax", "nn.softmax(x[1:])", {masked}, [](A x) { return softmax(slice_in_dim(x, 1, 2, 0)); }},
      {"linalg::norm", "jnp.linalg.norm(x)", {given({3, 0, -4})}, [](A x) { return linalg::norm(x); }},
      {"linalg::norm",
       "jnp.linalg.norm(x, 1)",
       {given({3, 0, -4})},
       [](A x) { return linalg::norm(x, {.order = 1}); },
       {.no_derivative = of_abs}},
      {"linalg::norm",
       "jnp.linalg.norm(x, jnp.inf)",
       {given({4, 0, -4})},
       [](A x) { return linalg::norm(x, {.order = inf}); }},
      {"linalg::norm",
       "jnp.linalg.norm(x)",
       {zeros},
       [](A x) { return linalg::norm(x); },
       {.limits = "0 at zero, a subgradient, as in PyTorch"}},
      {"stddev",
       "jnp.std(x)",
       {zeros},
       [](A x) { return stddev(x); },
       {.limits = "0 at equal elements, as that of the norm"}},
      {"linalg::det", "jnp.linalg.det(x)", {given({1, 2, 2, 4}, {2, 2})}, [](A x) { return linalg::det(x); }},
  };
}

}  // namespace lockstep::tests::functions
