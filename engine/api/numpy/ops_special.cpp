#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/custom_derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/linalg/exact_product.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

Array inexact_operand(std::string_view op, const Operand& x) {
  return std::move(api::aligned(op, {&x}, api::inexact(api::common_dtype({&x}))).front());
}

/// Descending powers.
Array polynomial(const Array& x, std::span<const double> coefficients) {
  Array sum = full_like(x, coefficients.front());
  for (const double coefficient : coefficients.subspan(1)) sum = add(mul(sum, x), coefficient);
  return sum;
}

using Coefficients = std::array<double, 8>;

/// Algorithm AS 241, PPND16: near the middle a rational function in 0.425^2 - q^2, outside of it in sqrt(-log(tail)).
struct Rational {
  Coefficients above, below;

  Array operator()(const Array& x) const { return div(polynomial(x, above), polynomial(x, below)); }
};

constexpr Rational around_middle{
    {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
     1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e+0},
    {5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
     5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0}};
constexpr Rational near_tail{
    {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e+0,
     3.64784832476320460504e+0, 5.76949722146069140550e+0, 4.63033784615654529590e+0, 1.42343711074968357734e+0},
    {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e+0, 2.05319162663775882187e+0, 1.0}};
constexpr Rational far_tail{
    {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e+0, 5.46378491116411436990e+0, 6.65790464350110377720e+0},
    {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0}};

/// f of both in at least float32, rounded once.
template <class F>
Array pair_in_widened(const std::pair<Array, Array>& operands, F f) {
  const DType dtype = operands.first.dtype(), wide = api::widened(dtype);
  return convert(f(convert(operands.first, wide), convert(operands.second, wide)), dtype);
}

/// The sum of c(k) x^k with c(0) = 1 and c(k) = c(k - 1) / divisor(k), up to k = last.
template <class Divisor>
Array series(const Array& x, int last, Divisor divisor) {
  Array sum = ones_like(x);
  for (int k = last; k >= 1; --k) sum = add(mul(sum, mul(x, 1.0 / divisor(k))), 1);
  return sum;
}

/// A function of one array with a slope of its own: slope(x, y) of y = function(x).
template <class F, class Slope>
auto with_slope(F function, Slope slope) {
  const auto rule = [function, slope](const std::tuple<Array>& value, const std::tuple<Array>& tangent) {
    const Array& x = std::get<0>(value);
    const Array y = function(x);
    return std::pair(y, mul(slope(x, y), std::get<0>(tangent)));
  };
  return custom_jvp(function, rule, {.check = RuleCheck::never});
}

/// The inverse of ndtr by Wichura's approximations, p = 1/2 + q. Around the middle the slope is the inverse density, for
/// that of the approximation has fewer digits.
Array normal_quantile(const Array& value) {
  const Array q = sub(value, 0.5);
  const Array central = less_equal(abs(q), 0.425);
  const auto around = [](const Array& x) { return mul(x, around_middle(sub(0.180625, square(x)))); };
  const auto slope = [](const Array&, const Array& y) {
    return mul(exp(mul(square(y), 0.5)), std::sqrt(2 * std::numbers::pi));
  };
  const auto once = with_slope(around, slope);
  const auto twice = with_slope(around, [once, slope](const Array& x, const Array&) { return slope(x, once(x)); });
  const Array inner = twice(where(central, q, 0));
  const Array tail = where(less(q, 0), value, sub(1, value));
  const Array inside = logical_and(greater(tail, 0), logical_not(central));
  const Array root = sqrt(neg(log(where(inside, tail, 0.05))));
  const Array near = less_equal(root, 5);
  const Array outer = where(near, near_tail(sub(where(near, root, 5), 1.6)), far_tail(sub(where(near, 5, root), 5)));
  const Array result = where(central, inner, mul(sign(q), outer));
  const Array ends = where(equal(value, 0), -api::infinity, where(equal(value, 1), api::infinity, result));
  const Array outside = logical_not(logical_and(greater_equal(value, 0), less_equal(value, 1)));
  return where(outside, std::numeric_limits<double>::quiet_NaN(), ends);
}

/// log(a / b), whose derivatives are those of the logarithms: the quotient's leave the range where they do not.
Array log_quotient(const Array& a, const Array& b) {
  const auto plain = [](const Array& x, const Array& y) { return log(div(x, y)); };
  const auto derived = [plain](auto value) {
    const auto rule = [value](const std::tuple<Array, Array>& at, const std::tuple<Array, Array>& tangents) {
      const auto& [x, y] = at;
      return std::pair(value(x, y), sub(div(std::get<0>(tangents), x), div(std::get<1>(tangents), y)));
    };
    return custom_jvp(plain, rule, {.check = RuleCheck::never});
  };
  return derived(derived(plain))(a, b);  // The first derivative of a product with it holds its value.
}

/// (exp(power logarithm) - 1) / power. Near power 0 it is logarithm times a series, which has all its derivatives there;
/// the quotient would lose their digits.
Array power_of_logarithm(const Array& logarithm, const Array& power) {
  const Array exponent = mul(power, logarithm);
  const Array near = less(abs(exponent), 1);
  const Array ratio = series(where(near, exponent, 0), 20, [](int k) { return k + 1; });
  const Array none = logical_or(near, equal(power, 0));  // An infinite logarithm times 0 is no number.
  const Array far = div(expm1(where(none, 1, exponent)), where(none, 1, power));
  return where(near, mul(where(near, logarithm, 0), ratio), where(none, logarithm, far));
}

/// I0 and I1 / (x / 2) of |x| < 2, in x^2 / 4: as products with e^|x| their derivatives would be differences.
Array bessel_series(const Array& quarter_square, int order) {
  return series(quarter_square, 13, [order](int k) { return k * (k + order); });
}

/// Of `near` where |x| < 2, else of `far`.
template <class Near, class Far>
Array bessel(const Array& x, Near near, Far far) {
  return api::in_widened(x, [&](const Array& value) {
    const Array small = less(abs(value), 2);
    const Array inner = where(small, value, 0);
    return where(small, near(inner, mul(square(inner), 0.25)), far(where(small, 2, value)));
  });
}

/// log(ndtr(x)) far below 0, by the asymptotic series of the tail's ratio to the density.
Array log_lower_tail(const Array& x) {
  const Array inverse = div(1.0, square(x));
  // 1 - 1/x^2 + 1 3/x^4 - 1 3 5/x^6 + ...
  Array sum = ones_like(x);
  for (int n = x.dtype() == DType::float64 ? 39 : 15; n >= 1; n -= 2) sum = sub(1, mul(mul(inverse, n), sum));
  return add(sub(mul(square(x), -0.5), log(neg(x))), sub(log(sum), 0.5 * std::log(2 * std::numbers::pi)));
}

/// Gamma(z) over Stirling's formula, as a logarithm, for z >= 8. DLMF 5.11.1.
Array stirling_rest(const Array& z) {
  constexpr std::array<double, 7> series = {1.0 / 156,  -691.0 / 360360, 1.0 / 1188, -1.0 / 1680,
                                            1.0 / 1260, -1.0 / 360,      1.0 / 12};
  return div(polynomial(div(1.0, square(z)), series), z);
}

/// log(Gamma(b) / Gamma(a + b)) for b >= 8 and any a from 0 to b: as a difference of logarithms it would lose its digits.
Array log_gamma_ratio(const Array& a, const Array& b) {
  const Array both = add(a, b);
  const Array powers = add(mul(sub(b, 0.5), log1p(div(a, b))), mul(a, sub(log(both), 1)));
  return sub(sub(stirling_rest(b), stirling_rest(both)), powers);
}

Array of_order(std::string_view op, const ir::Primitive& primitive, std::int64_t n, const Operand& x) {
  if (n < 0 || n > 1000000) {
    throw ValueError(fmt::format("{}: n is {}; expected an order of 0 to 1000000", op, n));
  }
  return api::bind_one(primitive, {inexact_operand(op, x)}, {{"n", n}});
}

/// Weideman's expansion in powers of (l + i z) / (l - i z), highest first.
struct Faddeeva {
  static constexpr int terms = 44;
  double l = std::sqrt(terms / std::numbers::sqrt2);
  std::array<double, terms> coefficients{};

  Faddeeva() {
    constexpr int half = 2 * terms;
    for (int n = 1; n <= terms; ++n) {
      long double sum = 0;
      for (int k = 1 - half; k < half; ++k) {
        const long double angle = k * std::numbers::pi_v<long double> / half;
        const long double t = l * std::tan(angle / 2);
        sum += std::exp(-t * t) * (l * l + t * t) * std::cos(n * angle);
      }
      coefficients[static_cast<std::size_t>(terms - n)] = static_cast<double>(sum / (2 * half));
    }
  }
};

/// w(z) for z in the upper half plane.
Array upper_faddeeva(const Array& z) {
  static const Faddeeva by;
  const Array turned = complex(-imag(z), real(z));  // i z
  const Array below = sub(by.l, turned), ratio = div(add(by.l, turned), below);
  Array sum = full_like(z, by.coefficients[0]);
  for (std::size_t k = 1; k < Faddeeva::terms; ++k) sum = add(mul(sum, ratio), by.coefficients[k]);
  return div(add(div(mul(2, sum), below), std::numbers::inv_sqrtpi), below);
}

/// sqrt((2n + 1) (n - m)! / (4 pi (n + m)!)) P_n^m of the cosine, m >= 0, by recurrence in n, whose coefficients keep the
/// values' size.
Array normalized_legendre(std::int64_t n, std::int64_t m, const Array& cosine, const Array& sine) {
  double first = std::sqrt(0.25 * std::numbers::inv_pi);
  for (std::int64_t k = 1; k <= m; ++k) {
    const auto order = static_cast<double>(k);
    first *= -std::sqrt((2 * order + 1) / (2 * order));
  }
  Array before = zeros_like(cosine), value = full_like(cosine, first);
  for (std::int64_t k = 0; k < m; ++k) value = mul(value, sine);
  const auto squared = [](std::int64_t k) { return static_cast<double>(k * k); };
  for (std::int64_t k = m + 1; k <= n; ++k) {
    const double here = std::sqrt((4 * squared(k) - 1) / (squared(k) - squared(m)));
    const double last = k == m + 1 ? 0 : std::sqrt((squared(k - 1) - squared(m)) / (4 * squared(k - 1) - 1));
    Array next = mul(here, sub(mul(cosine, value), mul(last, before)));
    before = std::exchange(value, std::move(next));
  }
  return value;
}

}  // namespace

Array zeta(double s, const Operand& q) {
  if (!(s > 1)) throw ValueError(fmt::format("zeta: s is {}; expected a number above 1, where the sum converges", s));
  return api::bind_one(ops::primitives::zeta(), {inexact_operand(__func__, q)}, {{"s", s}});
}

Array polygamma(std::int64_t n, const Operand& x) {
  if (n < 0) throw ValueError(fmt::format("polygamma: n is {}; expected the number of a derivative, 0 or more", n));
  if (n == 0) return digamma(x);
  const double count = static_cast<double>(n);
  return mul(zeta(count + 1, x), (n % 2 == 0 ? -1 : 1) * std::tgamma(count + 1));
}

Array gammasgn(const Operand& x) {
  const Array value = inexact_operand("gammasgn", x);
  const Array below = floor(value);
  const Array even = equal(sub(below, mul(floor(mul(below, 0.5)), 2)), 0);
  const Array sign = where(logical_or(greater(value, 0), even), ones_like(value), -1);
  const Array signed_zero = where(equal(value, 0), copysign(1.0, value), sign);
  const Array pole = logical_and(less(value, 0), equal(value, below));
  return where(logical_or(pole, isnan(value)), std::numeric_limits<double>::quiet_NaN(), signed_zero);
}

Array gamma(const Operand& x) {
  return api::in_widened(inexact_operand("gamma", x),
                         [](const Array& value) { return mul(gammasgn(value), exp(lgamma(value))); });
}
Array factorial(const Operand& n) { return where(less(n, 0), 0, gamma(add(n, 1.0))); }

Array multigammaln(const Operand& a, std::int64_t dimensions) {
  if (dimensions < 1) {
    throw ValueError(fmt::format("multigammaln: {} dimensions; expected at least 1", dimensions));
  }
  const double d = static_cast<double>(dimensions);
  Array sum = add(lgamma(a), d * (d - 1) / 4 * std::log(std::numbers::pi));
  for (std::int64_t i = 1; i < dimensions; ++i) sum = add(sum, lgamma(sub(a, static_cast<double>(i) / 2)));
  return sum;
}

Array betaln(const Operand& a, const Operand& b) {
  const auto [given, other] = api::inexact_pair("betaln", a, b);
  const DType dtype = given.dtype(), wide = api::widened(dtype);
  const Array x = convert(given, wide), y = convert(other, wide);
  // Equal ones are taken in one order, whose formula holds for both: ties of extrema would have no second derivative.
  const Array in_order = less_equal(x, y);
  const Array low = where(in_order, x, y), high = where(in_order, y, x);
  const Array large = greater_equal(high, 8);
  // What is not chosen must be finite, since its derivative is multiplied by 0.
  const Array far = log_gamma_ratio(low, where(large, high, 8));
  const Array near = sub(lgamma(high), lgamma(add(low, high)));
  return convert(add(lgamma(low), where(large, far, near)), dtype);
}

Array beta(const Operand& a, const Operand& b) {
  return pair_in_widened(api::inexact_pair("beta", a, b), [](const Array& x, const Array& y) {
    return mul(mul(mul(gammasgn(x), gammasgn(y)), gammasgn(add(x, y))), exp(betaln(x, y)));
  });
}

Array random_gamma_grad(const Operand& a, const Operand& x) {
  const auto [shape, sample] = api::inexact_pair(__func__, a, x);
  const Array log_density = sub(sub(mul(sub(shape, 1), log(sample)), sample), lgamma(shape));
  return neg(mul(igamma_grad_a(shape, sample), exp(neg(log_density))));
}

Array i0(const Operand& x) {
  return bessel(
      inexact_operand("i0", x), [](const Array&, const Array& s) { return bessel_series(s, 0); },
      [](const Array& value) { return mul(exp(abs(value)), bessel_i0e(value)); });
}

Array i1(const Operand& x) {
  return bessel(
      inexact_operand("i1", x),
      [](const Array& value, const Array& s) { return mul(mul(value, 0.5), bessel_series(s, 1)); },
      [](const Array& value) { return mul(exp(abs(value)), bessel_i1e(value)); });
}

Array xlogy(const Operand& x, const Operand& y) {
  return pair_in_widened(api::inexact_pair("xlogy", x, y), [](const Array& factor, const Array& argument) {
    const Array none = logical_and(equal(factor, 0), logical_or(less_equal(argument, 0), isinf(argument)));
    return where(none, zeros_like(factor), mul(factor, log(where(none, 1, argument))));
  });
}

Array xlog1py(const Operand& x, const Operand& y) {
  return pair_in_widened(api::inexact_pair("xlog1py", x, y), [](const Array& factor, const Array& argument) {
    const Array none = logical_and(equal(factor, 0), logical_or(less_equal(argument, -1), isinf(argument)));
    return where(none, zeros_like(factor), mul(factor, log1p(where(none, 0, argument))));
  });
}

Array entr(const Operand& x) {
  // As a product with the logarithm its slope would hold x / x, which is no number where 1 / x or x is infinite.
  const auto inside = with_slope([](const Array& value) { return neg(mul(value, log(value))); },
                                 [](const Array& value, const Array&) { return neg(add(log(value), 1)); });
  return api::in_widened(inexact_operand("entr", x), [&](const Array& value) {
    const Array outside = less(value, 0), zero = equal(value, 0);
    const Array inner = inside(where(less_equal(value, 0), 1, value));
    return where(outside, -api::infinity, where(zero, 0, inner));
  });
}

Array rel_entr(const Operand& x, const Operand& y) {
  return pair_in_widened(api::inexact_pair("rel_entr", x, y), [](const Array& p, const Array& q) {
    const Array inside = logical_and(greater(p, 0), greater(q, 0));
    const Array zero = logical_and(equal(p, 0), greater_equal(q, 0));
    const Array above = where(inside, p, 1), below = where(inside, q, 1);
    const Array quotient = stop_gradient(div(above, below));
    const Array usual = logical_and(greater(quotient, 0), is_finite(quotient));
    const Array logarithm =
        where(usual, log_quotient(where(usual, above, 1), where(usual, below, 1)), sub(log(above), log(below)));
    const Array value = where(inside, mul(above, logarithm), where(zero, zeros_like(p), api::infinity));
    return where(logical_or(isnan(p), isnan(q)), add(p, q), value);
  });
}

Array kl_div(const Operand& x, const Operand& y) {
  return pair_in_widened(api::inexact_pair("kl_div", x, y),
                         [](const Array& p, const Array& q) { return add(sub(rel_entr(p, q), p), q); });
}

Array logit(const Operand& p) {
  return api::in_widened(inexact_operand("logit", p), [](const Array& x) {
    // Near 1/2 the difference of logarithms would lose its digits.
    const Array near_middle = less(abs(sub(x, 0.5)), 0.25);
    const Array inner = atanh(sub(mul(where(near_middle, x, 0.5), 2), 1));
    const Array outer = where(near_middle, 0.75, x);
    return where(near_middle, mul(inner, 2), sub(log(outer), log1p(neg(outer))));
  });
}

Array ndtr(const Operand& x) {
  return api::in_widened(inexact_operand("ndtr", x), [](const Array& value) {
    // erfc's tail moves by 2 t^2 units where its argument t moves by one, so what rounding t loses counts.
    const api::Product t = api::exact_product(neg(value), std::numbers::sqrt2_v<long double> / 2);
    const Array near = where(greater(abs(t.high), 28), 28, t.high);
    const Array slope = mul(exp(neg(square(near))), 2 * std::numbers::inv_sqrtpi);
    return mul(sub(erfc(t.high), mul(t.rest, slope)), 0.5);
  });
}

Array log_ndtr(const Operand& x) {
  return api::in_widened(inexact_operand("log_ndtr", x), [](const Array& value) {
    const double lower = value.dtype() == DType::float64 ? -10 : -7;
    const Array high = greater(value, 0), low = less(value, lower);
    const Array above = log1p(neg(ndtr(neg(where(high, value, 0)))));
    const Array between = log(ndtr(where(logical_or(high, low), 0, value)));
    return where(high, above, where(low, log_lower_tail(where(low, value, lower)), between));
  });
}

Array ndtri(const Operand& p) { return api::in_widened(inexact_operand("ndtri", p), normal_quantile); }

Array boxcox(const Operand& x, const Operand& lambda) {
  return pair_in_widened(api::inexact_pair("boxcox", x, lambda),
                         [](const Array& value, const Array& power) { return power_of_logarithm(log(value), power); });
}

Array boxcox1p(const Operand& x, const Operand& lambda) {
  return pair_in_widened(api::inexact_pair("boxcox1p", x, lambda), [](const Array& value, const Array& power) {
    return power_of_logarithm(log1p(value), power);
  });
}

Array hyp2f1(const Operand& a, const Operand& b, const Operand& c, const Operand& x) {
  const std::vector<Array> operands =
      api::aligned(__func__, {&a, &b, &c, &x}, api::inexact(api::common_dtype({&a, &b, &c, &x})));
  return api::bind(ops::primitives::hyp2f1(), operands).front();
}

Array bessel_jn(std::int64_t n, const Operand& x) { return of_order(__func__, ops::primitives::bessel_jn(), n, x); }

Array expn(std::int64_t n, const Operand& x) { return of_order(__func__, ops::primitives::expn(), n, x); }

std::pair<Array, Array> sici(const Operand& x) {
  const Array value = inexact_operand(__func__, x);
  return {sin_integral(value), cos_integral(abs(value))};
}

std::pair<Array, Array> fresnel(const Operand& x) {
  const Array value = inexact_operand(__func__, x);
  return {fresnel_s(value), fresnel_c(value)};
}

Array wofz(const Operand& z) {
  Array value = inexact_operand(__func__, z);
  if (!is_complex(value.dtype())) value = complex(value, zeros_like(value));
  const Array is_lower = less(imag(value), 0);
  const Array folded = where(is_lower, neg(value), value), none = zeros_like(value);
  // i / (sqrt(pi) z) far out, where the expansion's powers overflow.
  const Array is_far = greater(abs(stop_gradient(folded)), 1e8);
  const Array far = div(complex(zeros_like(real(none)), full_like(real(none), std::numbers::inv_sqrtpi)),
                        where(is_far, folded, ones_like(value)));
  const Array upper = where(is_far, far, upper_faddeeva(where(is_far, none, folded)));
  const Array lower = where(is_lower, value, none);
  return where(is_lower, sub(mul(2, exp(neg(mul(lower, lower)))), upper), upper);
}

Array sph_harm_y(std::int64_t n, std::int64_t m, const Operand& theta, const Operand& phi) {
  const std::int64_t order = m < 0 ? -m : m;
  if (n < 0 || order > n) {
    throw ValueError(fmt::format("sph_harm_y: n is {} and m {}; expected n of 0 or more and m of -n to n", n, m));
  }
  const std::vector<Array> angles =
      api::aligned(__func__, {&theta, &phi}, api::inexact(api::common_dtype({&theta, &phi})));
  const Array size = normalized_legendre(n, order, cos(angles[0]), sin(angles[0]));
  const Array turns = mul(static_cast<double>(m), angles[1]);
  const double sign = m < 0 && order % 2 == 1 ? -1 : 1;
  return complex(mul(size, mul(sign, cos(turns))), mul(size, mul(sign, sin(turns))));
}

}  // namespace lockstep
