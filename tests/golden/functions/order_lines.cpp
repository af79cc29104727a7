#include <lockstep/reductions.h>

#include "tests/golden/functions/table.h"

// Accumulations, orders, counts and sets.
namespace lockstep::tests::functions {
namespace {

const Input unsorted = drawn({3, 4}), distinct_matrix = distinct({3, 4});
const Input mixed_row = given({1, nan, -0.0, 0, -inf, 3, inf, 1, -2}, {9});
const Input ties = given({3, 1, 2, 1, 3, 3, 0, 0}, {2, 4});

Lines accumulations() {
  return {
      {"cumsum", "jnp.cumsum(x, 1)", {unsorted}, [](A x) { return cumsum(x, 1); }, {.dtypes = numbers}},
      {"cumsum", "jnp.cumsum(x, 0)", {ties}, [](A x) { return cumsum(x, 0); }, {.dtypes = booleans}},
      {"cumsum",
       "lax.cumsum(x, 1, reverse=True)",
       {unsorted},
       [](A x) { return cumsum(x, -1, true); },
       {.dtypes = numbers}},
      {"cumsum", "jnp.cumsum(x, 1)", {drawn({3, 0})}, [](A x) { return cumsum(x, 1); }},
      {"cumsum", "jnp.cumsum(x, 0)", {mixed_row}, [](A x) { return cumsum(x); }},
      {"cumprod", "jnp.cumprod(x, -1)", {unsorted}, [](A x) { return cumprod(x, -1); }, {.dtypes = numbers}},
      {"cumprod",
       "lax.cumprod(x, 0, reverse=True)",
       {unsorted},
       [](A x) { return cumprod(x, 0, true); },
       {.dtypes = numbers}},
      {"cumprod",
       "jnp.cumprod(x, 0)",
       {given({2, 0, 3, 0, 1})},
       [](A x) { return cumprod(x, 0); },
       {.no_derivative = "JAX's is NaN"}},
      {"cummax", "lax.cummax(x, 1)", {distinct_matrix}, [](A x) { return cummax(x, 1); }, {.dtypes = real_numbers}},
      {"cummax", "lax.cummax(x, 0)", {mixed_row}, [](A x) { return cummax(x); }, {.no_derivative = "ties"}},
      {"cummin",
       "lax.cummin(x, 1, reverse=True)",
       {distinct_matrix},
       [](A x) { return cummin(x, 1, true); },
       {.dtypes = real_numbers}},
      {"cumlogsumexp", "lax.cumlogsumexp(x, 1)", {unsorted}, [](A x) { return cumlogsumexp(x, 1); }},
      {"cumlogsumexp",
       "lax.cumlogsumexp(x, 0, reverse=True)",
       {unsorted},
       [](A x) { return cumlogsumexp(x, 0, true); }},
      {"nancumsum", "jnp.nancumsum(x, 0)", {mixed_row}, [](A x) { return nancumsum(x); }},
      {"nancumsum", "jnp.nancumsum(x, 1)", {unsorted}, [](A x) { return nancumsum(x, 1); }, {.dtypes = numbers}},
      {"nancumprod",
       "jnp.nancumprod(x, 1)",
       {given({1, nan, 2, nan, nan, 3}, {2, 3})},
       [](A x) { return nancumprod(x, 1); }},
      {"linear_recurrence",
       "lax.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (x, y), axis=1)[1]",
       {unsorted, unsorted},
       [](A x, A y) { return linear_recurrence(x, y, 1); }},
      {"diff", "jnp.diff(x)", {unsorted}, [](A x) { return diff(x); }, {.dtypes = everything}},
      {"diff", "jnp.diff(x, 2, 0)", {unsorted}, [](A x) { return diff(x, 2, 0); }, {.dtypes = numbers}},
      {"diff", "jnp.diff(x, 0)", {unsorted}, [](A x) { return diff(x, 0); }},
      {"diff", "jnp.diff(x, 3, 0)", {unsorted}, [](A x) { return diff(x, 3, 0); }},
      {"ediff1d", "jnp.ediff1d(x)", {unsorted}, [](A x) { return ediff1d(x); }, {.dtypes = numbers}},
      {"gradient",
       "jnp.gradient(x, axis=-1)",
       {unsorted},
       [](A x) { return gradient(x); },
       {.dtypes = {float32, float64, int32}}},
      {"gradient", "jnp.gradient(x, 0.5, axis=0)", {unsorted}, [](A x) { return gradient(x, 0, 0.5); }},
      {"gradient", "jnp.gradient(x, axis=0)", {drawn({2, 3})}, [](A x) { return gradient(x, 0); }},
  };
}

Lines orders() {
  const Input ascending = given({-1, 0, 0, 1, 2, 2, 3}), keys = given({-2, -1, 0, 0.5, 2, 3, 9});
  return {
      {"sort", "jnp.sort(x)", {distinct_matrix}, [](A x) { return sort(x); }, {.dtypes = everything}},
      {"sort",
       "jnp.sort(x, 0, descending=True)",
       {distinct_matrix},
       [](A x) { return sort(x, 0, true); },
       {.dtypes = real_numbers + booleans}},
      {"sort", "jnp.sort(x)", {mixed_row}, [](A x) { return sort(x); }, {.no_derivative = "ties"}},
      {"sort",
       "jnp.sort(x, descending=True)",
       {mixed_row},
       [](A x) { return sort(x, -1, true); },
       {.no_derivative = "ties"}},
      {"sort", "jnp.sort(x)", {given({nan, 1, inf, nan})}, [](A x) { return sort(x); }, {.dtypes = complexes}},
      {"argsort", "jnp.argsort(x)", {ties}, [](A x) { return argsort(x); }, {.dtypes = everything}},
      {"argsort",
       "jnp.argsort(x, 1, descending=True)",
       {ties},
       [](A x) { return argsort(x, 1, true); },
       {.dtypes = everything}},
      {"argsort", "jnp.argsort(x)", {mixed_row}, [](A x) { return argsort(x); }},
      {"argsort", "jnp.argsort(x, descending=True)", {mixed_row}, [](A x) { return argsort(x, -1, true); }},
      {"sort",
       "lax.sort((x, y), num_keys=1)",
       {ties, drawn({2, 4})},
       [](A x, A y) {
         return sort(Arrays{x, y});
       },
       {.dtypes = real_numbers}},
      {"sort",
       "lax.sort((x, y), dimension=0, num_keys=2)",
       {ties, drawn({2, 4})},
       [](A x, A y) {
         return sort(Arrays{x, y}, 0, 2);
       },
       {.dtypes = real_numbers}},
      {"lexsort",
       "jnp.lexsort((x, y))",
       {whole({1, 0, 2, 0, 1}), whole({1, 1, 0, 0, 1})},
       [](A x, A y) {
         return lexsort(Arrays{x, y});
       }},
      {"searchsorted",
       "jnp.searchsorted(x, y)",
       {ascending, keys},
       [](A x, A y) { return searchsorted(x, y); },
       {.dtypes = {float32, float64, int32, int64}}},
      {"searchsorted",
       "jnp.searchsorted(x, y, side='right')",
       {ascending, keys},
       [](A x, A y) { return searchsorted(x, y, Side::right); },
       {.dtypes = {float32, float64, int32, int64}}},
      {"searchsorted",
       "jnp.searchsorted(x, y)",
       {given({-inf, 0, 1, inf, nan}), given({nan, inf, -inf, -0.0, 5})},
       [](A x, A y) { return searchsorted(x, y); }},
      {"searchsorted",
       "jnp.searchsorted(x, y, side='right')",
       {given({-inf, -0.0, 0, inf, nan, nan}), given({nan, inf, -inf, 0, 5})},
       [](A x, A y) { return searchsorted(x, y, Side::right); }},
      {"digitize",
       "jnp.digitize(x, y)",
       {keys, ascending},
       [](A x, A y) { return digitize(x, y); },
       {.no_vmap = "bins are one vector"}},
      {"digitize",
       "jnp.digitize(x, y, right=True)",
       {keys, ascending},
       [](A x, A y) { return digitize(x, y, true); },
       {.no_vmap = "bins are one vector"}},
      {"digitize",
       "jnp.digitize(x, y)",
       {keys, given({3, 2, 2, 0, -1})},
       [](A x, A y) { return digitize(x, y); },
       {.no_vmap = "bins are one vector"}},
  };
}

Lines order_counts() {
  const Input few = whole({0, 3, 1, 3, 5, -1, 9}), rows = given({0, 1, 0, 2, 0, 0}, {2, 3});
  return {
      {"bincount", "jnp.bincount(x, length=6)", {few}, [](A x) { return bincount(x, 6); }, {.dtypes = {int32}}},
      {"bincount", "jnp.bincount(x, y, length=6)", {few, drawn({7})}, [](A x, A y) { return bincount(x, 6, y); }},
      {"histogram",
       "jnp.histogram(x, 4)",
       {distinct_matrix},
       [](A x) { return histogram(x, 4); },
       {.no_derivative = "of the edges in JAX alone"}},
      {"histogram",
       "jnp.histogram(x, 4, (-1.0, 1.0))",
       {drawn({20})},
       [](A x) { return histogram(x, 4, std::pair(-1.0, 1.0)); }},
      {"histogram",
       "jnp.histogram(x, 3, (0.0, 3.0), y)",
       {given({0, 1, 2, 3, 1.5, nan}), drawn({6})},
       [](A x, A y) { return histogram(x, 3, std::pair(0.0, 3.0), y); },
       {.underived = {0}}},
      {"histogram",
       "jnp.histogram(x, y)[0]",
       {given({0, 1, 2, 3, 1.5}), given({0, 1, 1.5, 3})},
       [](A x, A y) { return histogram(x, y); },
       {.no_vmap = "edges are one vector"}},
      {"nonzero",
       "jnp.nonzero(x, size=4, fill_value=-1)",
       {rows},
       [](A x) { return nonzero(x, 4, -1); },
       {.dtypes = everything}},
      {"nonzero", "jnp.nonzero(x, size=1)", {rows}, [](A x) { return nonzero(x, 1); }},
      {"flatnonzero", "jnp.flatnonzero(x, size=3)", {rows}, [](A x) { return flatnonzero(x, 3); }},
      {"argwhere", "jnp.argwhere(x, size=3, fill_value=7)", {rows}, [](A x) { return argwhere(x, 3, 7); }},
      {"unique",
       "jnp.unique(x, size=5, return_index=True, return_inverse=True, return_counts=True)",
       {ties},
       [](A x) {
         const Unique u = unique(x, 5);
         return Arrays{u.values, u.indices, u.inverse, u.counts};
       },
       {.dtypes = real_numbers}},
      {"unique", "jnp.unique(x, size=3)", {ties}, [](A x) { return unique(x, 3).values; }, {.dtypes = real_numbers}},
      {"unique",
       "jnp.unique(x, size=6, fill_value=9)",
       {ties},
       [](A x) { return unique(x, 6, full({}, 9, x.dtype())).values; },
       {.dtypes = real_numbers}},
      {"unique",
       "jnp.unique(x, size=9, return_counts=True)",
       {given({nan, 1, nan, 0, -0.0, inf})},
       [](A x) {
         const Unique u = unique(x, 9);
         return Arrays{u.values, u.counts};
       }},
      {"isin", "jnp.isin(x, y)", {ties, given({1, 2, 9})}, [](A x, A y) { return isin(x, y); }, {.dtypes = everything}},
      {"isin", "jnp.isin(x, y)", {given({nan, 0, 1}), given({nan, -0.0})}, [](A x, A y) { return isin(x, y); }},
  };
}

}  // namespace

Lines order_lines() {
  Lines lines = accumulations();
  for (const Lines& part : {orders(), order_counts()}) lines.insert(lines.end(), part.begin(), part.end());
  return lines;
}

}  // namespace lockstep::tests::functions
