#include <lockstep/ops.h>
#include <lockstep/reductions.h>

#include "tests/golden/functions/table.h"

// Reductions and statistics, of all axes, some, negative ones, of extent 1 and of none.
namespace lockstep::tests::functions {
namespace {

const std::vector<DType> real_numbers = floats + integers;
const std::vector<DType> numbers = real_numbers + complexes;
const std::vector<DType> everything = numbers + booleans;
const std::vector<DType> small_integers = {int8, int16, uint16};

const Input x = drawn({3, 1, 4}), apart = distinct({3, 1, 4}), empty = drawn({3, 0}), scalar = drawn({});
const Input holes = given({nan, 1, 2.5, nan, -1, 0.5, nan, nan, nan}, {3, 3});
const Input mixed = given({1, inf, -2, nan, -inf, 3, 0.5, -0.0, 0}, {3, 3});
const Input truths = given({0, 1, 2, 0, 0, 0}, {2, 3});

const Options of_truths = {.dtypes = everything,
                           .patched = "a complex number is true unless it is 0; JAX drops its imaginary part"};

/// Those of ops.h, whose axes and `keep` are alike.
Lines plain() {
  return {
      {"sum", "jnp.sum(x)", {x}, [](A x) { return sum(x); }, {.dtypes = everything + small_integers}},
      {"sum",
       "jnp.sum(x, (0, -1))",
       {x},
       [](A x) {
         return sum(x, Axes{0, -1});
       },
       {.dtypes = everything}},
      {"sum", "jnp.sum(x, 1, keepdims=True)", {x}, [](A x) { return sum(x, Axes{1}, true); }},
      {"sum", "jnp.sum(x, ())", {x}, [](A x) { return sum(x, Axes{}); }},
      {"sum", "jnp.sum(x, 0)", {empty}, [](A x) { return sum(x, Axes{0}); }},
      {"sum", "jnp.sum(x, 1)", {empty}, [](A x) { return sum(x, Axes{1}); }},
      {"sum", "jnp.sum(x)", {scalar}, [](A x) { return sum(x); }},
      {"sum", "jnp.sum(x, 1)", {mixed}, [](A x) { return sum(x, Axes{1}); }},
      {"sum", "jnp.sum(x)", {edges()}, [](A x) { return sum(x); }, {.dtypes = integers + small_integers}},
      {"prod", "jnp.prod(x)", {x}, [](A x) { return prod(x); }, {.dtypes = everything + small_integers}},
      {"prod",
       "jnp.prod(x, -1, keepdims=True)",
       {x},
       [](A x) { return prod(x, Axes{-1}, true); },
       {.dtypes = everything}},
      {"prod", "jnp.prod(x, 1)", {empty}, [](A x) { return prod(x, Axes{1}); }},
      {"prod", "jnp.prod(x, 0)", {given({0, 2, 0, 3, 0, 4}, {3, 2})}, [](A x) { return prod(x, Axes{0}); }},
      {"max", "jnp.max(x)", {apart}, [](A x) { return max(x); }, {.dtypes = real_numbers + booleans}},
      {"max", "jnp.max(x, -1)", {apart}, [](A x) { return max(x, Axes{-1}); }, {.dtypes = real_numbers + booleans}},
      {"max", "jnp.max(x, 1)", {given({1, 1, 0, 2, 2, 2}, {2, 3})}, [](A x) { return max(x, Axes{1}); }},
      {"max", "jnp.max(x, 1)", {mixed}, [](A x) { return max(x, Axes{1}); }, {.no_derivative = "NaN"}},
      {"min",
       "jnp.min(x, (0, 2), keepdims=True)",
       {apart},
       [](A x) {
         return min(x, Axes{0, 2}, true);
       },
       {.dtypes = real_numbers + booleans}},
      {"min", "jnp.min(x, 1)", {mixed}, [](A x) { return min(x, Axes{1}); }, {.no_derivative = "NaN"}},
      {"mean", "jnp.mean(x)", {x}, [](A x) { return mean(x); }, {.dtypes = everything}},
      {"mean",
       "jnp.mean(x, (0, 1), keepdims=True)",
       {x},
       [](A x) {
         return mean(x, Axes{0, 1}, true);
       }},
      {"mean", "jnp.mean(x, 1)", {empty}, [](A x) { return mean(x, Axes{1}); }},
      {"var", "jnp.var(x)", {x}, [](A x) { return var(x); }, {.dtypes = everything}},
      {"var", "jnp.var(x, -1, keepdims=True)", {x}, [](A x) { return var(x, Axes{-1}, true); }},
      {"var", "jnp.var(x, 1)", {x}, [](A x) { return var(x, Axes{1}); }},
      {"var", "jnp.var(x, 1)", {empty}, [](A x) { return var(x, Axes{1}); }},
      {"all", "jnp.all(x != 0)", {truths}, [](A x) { return all(x); }, of_truths},
      {"all", "jnp.all(x != 0, 0, keepdims=True)", {truths}, [](A x) { return all(x, Axes{0}, true); }, of_truths},
      {"all", "jnp.all(x, 1)", {empty}, [](A x) { return all(x, Axes{1}); }},
      {"all", "jnp.all(x)", {given({nan, 1})}, [](A x) { return all(x); }},
      {"any", "jnp.any(x != 0)", {truths}, [](A x) { return any(x); }, of_truths},
      {"any", "jnp.any(x != 0, -1)", {truths}, [](A x) { return any(x, Axes{-1}); }, of_truths},
      {"any", "jnp.any(x, 1)", {empty}, [](A x) { return any(x, Axes{1}); }},
      {"any", "jnp.any(x)", {given({nan, 0})}, [](A x) { return any(x); }},
      {"logsumexp", "special.logsumexp(x)", {x}, [](A x) { return logsumexp(x); }, {.dtypes = real_numbers}},
      {"logsumexp", "special.logsumexp(x, -1, keepdims=True)", {x}, [](A x) { return logsumexp(x, Axes{-1}, true); }},
      {"logsumexp",
       "special.logsumexp(x, 1)",
       {given({-inf, -inf, 1, inf, inf, -inf, nan, 1}, {4, 2})},
       [](A x) { return logsumexp(x, Axes{1}); }},
      {"logsumexp",
       "special.logsumexp(x, 0)",
       {given({1e4, 1e4 + 1, -1e4, -1e4}, {2, 2})},
       [](A x) { return logsumexp(x, Axes{0}); }},
      {"argmax", "jnp.argmax(x, 2)", {apart}, [](A x) { return argmax(x, 2); }, {.dtypes = real_numbers + booleans}},
      {"argmax",
       "jnp.argmax(x, -1)",
       {given({1, 3, 3, nan, 1, nan, 0, 0, 0}, {3, 3})},
       [](A x) { return argmax(x, -1); }},
      {"argmin", "jnp.argmin(x, 0)", {apart}, [](A x) { return argmin(x, 0); }, {.dtypes = real_numbers + booleans}},
      {"argmin",
       "jnp.argmin(x, -1)",
       {given({1, 3, 1, nan, 1, nan, 0, -0.0, 0}, {3, 3})},
       [](A x) { return argmin(x, -1); }},
      {"top_k", "lax.top_k(x, 3)", {apart}, [](A x) { return top_k(x, 3); }, {.dtypes = real_numbers}},
      {"top_k", "lax.top_k(x, 3)", {given({1, 3, 3, nan, 2, 3})}, [](A x) { return top_k(x, 3); }},
  };
}

Lines with_mask() {
  const Input some = mask({3, 1, 4}), row = mask({4}), none = Input{{4}, 0, 0}.of(bool_);
  return {
      {"sum", "jnp.sum(x, where=y)", {x, some}, [](A x, A y) { return sum(x, Where(y)); }, {.dtypes = everything}},
      {"sum",
       "jnp.sum(x, -1, keepdims=True, where=y)",
       {x, row},
       [](A x, A y) { return sum(x, Where(y), Axes{-1}, true); }},
      {"prod",
       "jnp.prod(x, 0, where=y)",
       {x, some},
       [](A x, A y) { return prod(x, Where(y), Axes{0}); },
       {.dtypes = numbers}},
      {"max",
       "jnp.max(x, -1, where=y, initial=-1)",
       {apart, some},
       [](A x, A y) { return max(x, Where(y), -1, Axes{-1}); },
       {.dtypes = {float32, float64, int32, int64}}},
      {"min",
       "jnp.min(x, 0, where=y, initial=0)",
       {apart, row},
       [](A x, A y) { return min(x, Where(y), 0, Axes{0}); },
       {.dtypes = real_numbers}},
      {"mean",
       "jnp.mean(x, 0, where=y)",
       {x, row},
       [](A x, A y) { return mean(x, Where(y), Axes{0}); },
       {.dtypes = numbers}},
      {"mean", "jnp.mean(x, where=y)", {x, none}, [](A x, A y) { return mean(x, Where(y)); }},
      {"var",
       "jnp.var(x, (0, 2), where=y)",
       {x, row},
       [](A x, A y) {
         return var(x, Where(y), Axes{0, 2});
       }},
      {"all",
       "jnp.all(x, -1, where=y)",
       {x, some},
       [](A x, A y) { return all(x, Where(y), Axes{-1}); },
       {.dtypes = everything}},
      {"any",
       "jnp.any(x, -1, where=y)",
       {x, some},
       [](A x, A y) { return any(x, Where(y), Axes{-1}); },
       {.dtypes = everything}},
      {"logsumexp",
       "special.logsumexp(x, -1, where=y)",
       {x, some},
       [](A x, A y) { return logsumexp(x, Where(y), Axes{-1}); }},
      {"logsumexp",
       "special.logsumexp(x, -1, where=y)",
       {x, none},
       [](A x, A y) { return logsumexp(x, Where(y), Axes{-1}); },
       {.no_derivative = "of nothing"}},
      {"logsumexp",
       "special.logsumexp(x, -1, b=y)",
       {x, drawn({3, 1, 4}, 0.1, 2)},
       [](A x, A y) { return logsumexp(x, y, Axes{-1}); }},
      {"logsumexp",
       "special.logsumexp(x, 0, b=y)",
       {drawn({2, 2}), given({-1, 0, -1, 2}, {2, 2})},
       [](A x, A y) { return logsumexp(x, y, Axes{0}); },
       {.no_derivative = "NaN"}},
      {"logmeanexp", "nn.logmeanexp(x, -1)", {x}, [](A x) { return logmeanexp(x, Axes{-1}); }},
      {"logmeanexp", "nn.logmeanexp(x, keepdims=True)", {x}, [](A x) { return logmeanexp(x, std::nullopt, true); }},
  };
}

Lines statistics() {
  const Input unit = given({0, 0.1, 0.25, 0.5, 0.9, 1});
  Lines lines = {
      {"reduce_and",
       "jnp.bitwise_and.reduce(x, 1)",
       {drawn({3, 4}, 0, 99)},
       [](A x) { return reduce_and(x, Axes{1}); },
       {.dtypes = integers}},
      {"reduce_or",
       "jnp.bitwise_or.reduce(x, 0, keepdims=True)",
       {drawn({3, 4}, 0, 99)},
       [](A x) { return reduce_or(x, Axes{0}, true); },
       {.dtypes = integers}},
      {"reduce_xor",
       "jnp.bitwise_xor.reduce(x, -1)",
       {drawn({3, 4}, 0, 99)},
       [](A x) { return reduce_xor(x, Axes{-1}); },
       {.dtypes = integers}},
      {"variance", "jnp.var(x, ddof=1)", {x}, [](A x) { return variance(x, std::nullopt, 1); }, {.dtypes = everything}},
      {"variance", "jnp.var(x, 0, ddof=2, keepdims=True)", {x}, [](A x) { return variance(x, Axes{0}, 2, true); }},
      {"variance",
       "jnp.var(x, 1, ddof=1)",
       {x},
       [](A x) { return variance(x, Axes{1}, 1); },
       {.no_derivative = "0 / 0"}},
      {"stddev", "jnp.std(x)", {x}, [](A x) { return stddev(x); }, {.dtypes = everything}},
      {"stddev", "jnp.std(x, -1, ddof=1, keepdims=True)", {x}, [](A x) { return stddev(x, Axes{-1}, 1, true); }},
      {"ptp", "jnp.ptp(x)", {apart}, [](A x) { return ptp(x); }, {.dtypes = real_numbers}},
      {"ptp", "jnp.ptp(x, -1, keepdims=True)", {apart}, [](A x) { return ptp(x, Axes{-1}, true); }},
      {"average",
       "jnp.average(x, weights=y)",
       {x, drawn({3, 1, 4}, 0.1, 2)},
       [](A x, A y) { return average(x, y); },
       {.dtypes = floats + integers}},
      {"average", "jnp.average(x, 2, y)", {x, drawn({4}, 0.1, 2)}, [](A x, A y) { return average(x, y, Axes{2}); }},
      {"count_nonzero", "jnp.count_nonzero(x)", {truths}, [](A x) { return count_nonzero(x); }, {.dtypes = everything}},
      {"count_nonzero",
       "jnp.count_nonzero(x, 0, keepdims=True)",
       {truths},
       [](A x) { return count_nonzero(x, Axes{0}, true); },
       {.dtypes = everything}},
      {"count_nonzero", "jnp.count_nonzero(x)", {given({nan, 0, -0.0})}, [](A x) { return count_nonzero(x); }},
      {"nansum", "jnp.nansum(x, 1)", {holes}, [](A x) { return nansum(x, Axes{1}); }},
      {"nansum", "jnp.nansum(x)", {drawn({4})}, [](A x) { return nansum(x); }, {.dtypes = everything}},
      {"nanprod", "jnp.nanprod(x, 0, keepdims=True)", {holes}, [](A x) { return nanprod(x, Axes{0}, true); }},
      {"nanmean", "jnp.nanmean(x)", {holes}, [](A x) { return nanmean(x); }},
      {"nanmean", "jnp.nanmean(x, 1)", {holes}, [](A x) { return nanmean(x, Axes{1}); }, {.no_derivative = "0 / 0"}},
      {"nanmean", "jnp.nanmean(x)", {drawn({4}, 0, 9)}, [](A x) { return nanmean(x); }, {.dtypes = integers}},
      {"nanvar", "jnp.nanvar(x)", {holes}, [](A x) { return nanvar(x); }},
      {"nanvar", "jnp.nanvar(x, 1)", {holes}, [](A x) { return nanvar(x, Axes{1}); }, {.no_derivative = "0 / 0"}},
      {"nanstd", "jnp.nanstd(x)", {holes}, [](A x) { return nanstd(x); }},
      {"nanmax", "jnp.nanmax(x, 1)", {holes}, [](A x) { return nanmax(x, Axes{1}); }, {.no_derivative = "0 / 0"}},
      {"nanmax", "jnp.nanmax(x)", {mixed}, [](A x) { return nanmax(x); }},
      {"nanmin", "jnp.nanmin(x, 0, keepdims=True)", {mixed}, [](A x) { return nanmin(x, Axes{0}, true); }},
      {"nanmin", "jnp.nanmin(x)", {apart}, [](A x) { return nanmin(x); }, {.dtypes = real_numbers}},
      {"nanargmax", "jnp.nanargmax(x, 1)", {holes}, [](A x) { return nanargmax(x, 1); }},
      {"nanargmin", "jnp.nanargmin(x, 0)", {mixed}, [](A x) { return nanargmin(x, 0); }},
      {"nanargmin", "jnp.nanargmin(x, -1)", {apart}, [](A x) { return nanargmin(x, -1); }, {.dtypes = integers}},
      {"quantile",
       "jnp.quantile(x, y)",
       {distinct({7}), unit},
       [](A x, A y) { return quantile(x, y); },
       {.underived = {1}}},
      {"quantile", "jnp.quantile(x, 0.3, 0)", {apart}, [](A x) { return quantile(x, 0.3, 0); }},
      {"quantile",
       "jnp.quantile(x, 0.3, 0)",
       {mixed},
       [](A x) { return quantile(x, 0.3, 0); },
       {.no_derivative = "NaN"}},
      {"percentile", "jnp.percentile(x, 35.0, -1)", {apart}, [](A x) { return percentile(x, 35.0, -1); }},
      {"percentile", "jnp.percentile(x, 35.0)", {apart}, [](A x) { return percentile(x, 35.0); }, {.dtypes = {int32}}},
      {"median", "jnp.median(x)", {apart}, [](A x) { return median(x); }, {.dtypes = {float32, float64, int32}}},
      {"median", "jnp.median(x, -1)", {distinct({2, 5})}, [](A x) { return median(x, -1); }},
      {"median", "jnp.median(x, -1)", {mixed}, [](A x) { return median(x, -1); }, {.no_derivative = "NaN"}},
      {"nanmedian", "jnp.nanmedian(x)", {holes}, [](A x) { return nanmedian(x); }},
      {"nanmedian", "jnp.nanmedian(x, 1)", {holes}, [](A x) { return nanmedian(x, 1); }, {.no_derivative = "NaN"}},
      {"cov", "jnp.cov(x)", {drawn({3, 5})}, [](A x) { return cov(x); }, {.dtypes = floats + complexes}},
      {"cov", "jnp.cov(x, ddof=0)", {drawn({3, 5})}, [](A x) { return cov(x, 0); }},
      {"cov", "jnp.cov(x)", {drawn({5})}, [](A x) { return cov(x); }},
      {"corrcoef", "jnp.corrcoef(x)", {drawn({5})}, [](A x) { return corrcoef(x); }},
      {"corrcoef", "jnp.corrcoef(x)", {drawn({3, 5})}, [](A x) { return corrcoef(x); }, {.dtypes = floats + complexes}},
  };
  const std::pair<Quantile, std::string_view> methods[] = {
      {Quantile::lower, "jnp.quantile(x, y, method='lower')"},
      {Quantile::higher, "jnp.quantile(x, y, method='higher')"},
      {Quantile::nearest, "jnp.quantile(x, y, method='nearest')"},
      {Quantile::midpoint, "jnp.quantile(x, y, method='midpoint')"}};
  for (const auto& [method, jax] : methods) {
    lines.push_back({"quantile",
                     jax,
                     {distinct({7}), unit},
                     [method](A x, A y) { return quantile(x, y, std::nullopt, method); },
                     {.underived = {1}}});
  }
  return lines;
}

}  // namespace

Lines reduction_lines() {
  Lines lines = plain();
  for (const Lines& part : {with_mask(), statistics()}) lines.insert(lines.end(), part.begin(), part.end());
  return lines;
}

}  // namespace lockstep::tests::functions
