#include <lockstep/activations.h>
#include <lockstep/elementwise.h>
#include <lockstep/ops.h>

#include "tests/golden/functions/table.h"

// Element-wise functions of NaN, infinities, zeros of both signs and the extremes of integers.
namespace lockstep::tests::functions {
namespace {

constexpr std::string_view of_infinity = "0 at infinity and infinite at poles, where JAX has NaN";
constexpr std::string_view at_infinity = "the limit at an infinity: x or 0, or 1 of soft_sign";
constexpr std::string_view by_zero = "a quotient by 0 has all bits set; JAX rounds that down for a positive dividend";

Lines edges_of_one() {
  Lines lines;
  const auto add = [&](std::string_view function, std::string_view jax, const Call& call, const Options& options = {}) {
    lines.push_back({function, jax, {edges()}, call, options});
  };
  add("abs", "jnp.abs(x)", [](A x) { return abs(x); }, {.dtypes = real_numbers});
  add("sign", "jnp.sign(x)", [](A x) { return sign(x); }, {.dtypes = real_numbers});
  add("sqrt", "jnp.sqrt(x)", [](A x) { return sqrt(x); }, {.dtypes = real_numbers});
  add("exp", "jnp.exp(x)", [](A x) { return exp(x); }, {.dtypes = real_numbers});
  add("log", "jnp.log(x)", [](A x) { return log(x); }, {.dtypes = real_numbers});
  add("log1p", "jnp.log1p(x)", [](A x) { return log1p(x); }, {.dtypes = real_numbers});
  add("tanh", "jnp.tanh(x)", [](A x) { return tanh(x); }, {.dtypes = real_numbers});
  add("floor", "jnp.floor(x)", [](A x) { return floor(x); });
  add("ceil", "jnp.ceil(x)", [](A x) { return ceil(x); });
  add("is_finite", "jnp.isfinite(x)", [](A x) { return is_finite(x); });
  add("reciprocal", "jnp.reciprocal(x)", [](A x) { return reciprocal(x); });
  add("log10", "jnp.log10(x)", [](A x) { return log10(x); }, {.dtypes = real_numbers});
  add("trunc", "jnp.trunc(x)", [](A x) { return trunc(x); }, {.dtypes = real_numbers});
  add("round", "jnp.round(x)", [](A x) { return round(x); });
  add("round", "jnp.round(x, 1)", [](A x) { return round(x, 1); });
  add("sinc", "jnp.sinc(x)", [](A x) { return sinc(x); });
  add("modf", "[jnp.where(jnp.isinf(x), jnp.copysign(0, x), jnp.modf(x)[0]), jnp.trunc(x)]",
      [](A x) { return modf(x); }, {.patched = "an infinity has no fraction, as in C and numpy; in JAX it is NaN"});
  add("signbit", "jnp.signbit(x)", [](A x) { return signbit(x); }, {.dtypes = real_numbers + booleans});
  add("isnan", "jnp.isnan(x)", [](A x) { return isnan(x); }, {.dtypes = real_numbers + complexes});
  add("isinf", "jnp.isinf(x)", [](A x) { return isinf(x); }, {.dtypes = real_numbers + complexes});
  add("isposinf", "jnp.isposinf(x)", [](A x) { return isposinf(x); }, {.dtypes = real_numbers});
  add("isneginf", "jnp.isneginf(x)", [](A x) { return isneginf(x); }, {.dtypes = real_numbers});
  add("nan_to_num", "jnp.nan_to_num(x)", [](A x) { return nan_to_num(x); }, {.dtypes = real_numbers + booleans});
  add("gamma", "special.gamma(x)", [](A x) { return gamma(x); }, {.room = lgamma_room});
  add("gammasgn", "special.gammasgn(x)", [](A x) { return gammasgn(x); });
  add("factorial", "special.factorial(x)", [](A x) { return factorial(x); }, {.room = lgamma_room});
  add("i0", "special.i0(x)", [](A x) { return i0(x); });
  add("i1", "special.i1(x)", [](A x) { return i1(x); });
  add("entr", "special.entr(x)", [](A x) { return entr(x); });
  add("logit", "special.logit(x)", [](A x) { return logit(x); });
  add("ndtr", "special.ndtr(x)", [](A x) { return ndtr(x); });
  add("log_ndtr", "special.log_ndtr(x)", [](A x) { return log_ndtr(x); });
  add("ndtri", "special.ndtri(x)", [](A x) { return ndtri(x); });
  add("polygamma", "jnp.where(x == jnp.inf, 0, special.polygamma(1, x))", [](A x) { return polygamma(1, x); },
      {.patched = of_infinity});
  add("zeta", "zeta(3.0, x)", [](A x) { return zeta(3.0, x); }, {.patched = of_infinity});
  add("angle", "jnp.angle(x)", [](A x) { return angle(x); });
  add("relu", "nn.relu(x)", [](A x) { return relu(x); }, {.dtypes = real_numbers});
  add("relu6", "nn.relu6(x)", [](A x) { return relu6(x); }, {.dtypes = real_numbers});
  add("sigmoid", "nn.sigmoid(x)", [](A x) { return sigmoid(x); });
  add("silu", "nn.silu(x)", [](A x) { return silu(x); }, {.limits = at_infinity});
  add("softplus", "nn.softplus(x)", [](A x) { return softplus(x); });
  add("gelu", "nn.gelu(x)", [](A x) { return gelu(x); }, {.limits = at_infinity});
  add("gelu", "nn.gelu(x, approximate=False)", [](A x) { return gelu(x, false); }, {.limits = at_infinity});
  add("elu", "nn.elu(x)", [](A x) { return elu(x); });
  add("celu", "nn.celu(x)", [](A x) { return celu(x); });
  add("selu", "nn.selu(x)", [](A x) { return selu(x); });
  add("leaky_relu", "nn.leaky_relu(x)", [](A x) { return leaky_relu(x); });
  add("hard_tanh", "nn.hard_tanh(x)", [](A x) { return hard_tanh(x); });
  add("hard_sigmoid", "nn.hard_sigmoid(x)", [](A x) { return hard_sigmoid(x); });
  add("hard_silu", "nn.hard_silu(x)", [](A x) { return hard_silu(x); }, {.limits = at_infinity});
  add("log_sigmoid", "nn.log_sigmoid(x)", [](A x) { return log_sigmoid(x); });
  add("mish", "nn.mish(x)", [](A x) { return mish(x); }, {.limits = at_infinity});
  add("squareplus", "nn.squareplus(x)", [](A x) { return squareplus(x); }, {.limits = at_infinity});
  add("soft_sign", "nn.soft_sign(x)", [](A x) { return soft_sign(x); }, {.limits = at_infinity});
  add("sparse_plus", "nn.sparse_plus(x)", [](A x) { return sparse_plus(x); });
  add("sparse_sigmoid", "nn.sparse_sigmoid(x)", [](A x) { return sparse_sigmoid(x); });
  add("log1mexp", "nn.log1mexp(x)", [](A x) { return log1mexp(x); });
  return lines;
}

Lines edges_of_two() {
  Lines lines;
  const auto add = [&](std::string_view function, std::string_view jax, const Call& call, const Options& options = {}) {
    lines.push_back({function, jax, {edge_column(), edges()}, call, options});
  };
  add("operator+", "x + y", [](A x, A y) { return x + y; }, {.dtypes = real_numbers});
  add("operator*", "x * y", [](A x, A y) { return x * y; }, {.dtypes = real_numbers});
  add("operator/", "x / y", [](A x, A y) { return x / y; }, {.dtypes = real_numbers});
  add("operator<", "x < y", [](A x, A y) { return x < y; }, {.dtypes = real_numbers});
  add("operator>=", "x >= y", [](A x, A y) { return x >= y; }, {.dtypes = real_numbers});
  add("operator==", "x == y", [](A x, A y) { return x == y; }, {.dtypes = real_numbers});
  add("maximum", "jnp.maximum(x, y)", [](A x, A y) { return maximum(x, y); }, {.dtypes = real_numbers});
  add("minimum", "jnp.minimum(x, y)", [](A x, A y) { return minimum(x, y); }, {.dtypes = real_numbers});
  add("atan2", "jnp.arctan2(x, y)", [](A x, A y) { return atan2(x, y); });
  add("power", "jnp.power(x, y)", [](A x, A y) { return power(x, y); });
  add("hypot", "jnp.hypot(x, y)", [](A x, A y) { return hypot(x, y); });
  add("logaddexp", "jnp.logaddexp(x, y)", [](A x, A y) { return logaddexp(x, y); });
  add("logaddexp2", "jnp.logaddexp2(x, y)", [](A x, A y) { return logaddexp2(x, y); });
  add("heaviside", "jnp.heaviside(x, y)", [](A x, A y) { return heaviside(x, y); });
  add("floor_divide", "jnp.floor_divide(x, y)", [](A x, A y) { return floor_divide(x, y); });
  add("floor_divide", "jnp.where(y == 0, jnp.asarray(-1).astype(x.dtype), jnp.floor_divide(x, y))",
      [](A x, A y) { return floor_divide(x, y); }, {.dtypes = integers, .patched = by_zero});
  add("remainder", "jnp.remainder(x, y)", [](A x, A y) { return remainder(x, y); }, {.dtypes = real_numbers});
  add("fmod", "jnp.fmod(x, y)", [](A x, A y) { return fmod(x, y); }, {.dtypes = real_numbers});
  add("divmod", "jnp.divmod(x, y)", [](A x, A y) { return divmod(x, y); });
  add("copysign", "jnp.copysign(x, y)", [](A x, A y) { return copysign(x, y); });
  add("fmax", "jnp.fmax(x, y)", [](A x, A y) { return fmax(x, y); }, {.dtypes = real_numbers});
  add("fmin", "jnp.fmin(x, y)", [](A x, A y) { return fmin(x, y); }, {.dtypes = real_numbers});
  add("logical_and", "jnp.logical_and(x, y)", [](A x, A y) { return logical_and(x, y); }, {.dtypes = real_numbers});
  add("isclose", "jnp.isclose(x, y)", [](A x, A y) { return isclose(x, y); }, {.dtypes = real_numbers});
  add("xlogy", "special.xlogy(x, y)", [](A x, A y) { return xlogy(x, y); });
  add("xlog1py", "special.xlog1py(x, y)", [](A x, A y) { return xlog1py(x, y); });
  add("rel_entr", "relative_entropy(x, y)", [](A x, A y) { return rel_entr(x, y); },
      {.patched = "as in scipy NaN stays NaN, which JAX takes for outside of the domain, and infinity is infinite"});
  add("kl_div", "jnp.where(jnp.isnan(x) | jnp.isnan(y), jnp.nan, special.kl_div(x, y))",
      [](A x, A y) { return kl_div(x, y); },
      {.patched = "as in scipy NaN stays NaN, which JAX takes for outside of the domain, and infinity is infinite"});
  add("betaln", "special.betaln(x, y)", [](A x, A y) { return betaln(x, y); }, {.room = lgamma_room});
  add("boxcox", "special.boxcox(x, y)", [](A x, A y) { return boxcox(x, y); }, {.room = {1e-5, 0, "a power of 7"}});
  add("boxcox1p", "special.boxcox1p(x, y)", [](A x, A y) { return boxcox1p(x, y); });
  add("clip", "jnp.clip(x, y, 0.5)", [](A x, A y) { return clip(x, y, 0.5); });
  return lines;
}

}  // namespace

Lines edge_lines() {
  Lines lines = edges_of_one();
  const Lines more = edges_of_two();
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

}  // namespace lockstep::tests::functions
