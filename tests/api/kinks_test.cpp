#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/activations.h>
#include <lockstep/derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "tests/api/scalar_function.h"
#include "tests/support/array_values.h"
#include "tests/support/non_finite.h"

// Smooth functions that are written with a maximum, a magnitude or a choice, where those have no derivative, and in the
// tails of what they are made of. Right values are mpmath's with 50 digits, or the limits they name.
namespace lockstep {
namespace {

using tests::check_close;
using tests::infinity;
using tests::ScalarFunction;
using tests::values;

Array forward(const ScalarFunction& f, const Array& x) {
  return jvp(f, std::tuple(x), std::tuple(ones_like(x))).second;
}

struct Point {
  std::string what;
  ScalarFunction f;
  double x;
  std::vector<double> expected;  ///< Value, first and second derivative.
};

void is_near(double given, double expected, double bound) {
  if (std::isinf(expected) || expected == 0) {
    CHECK(given == expected);
  } else {
    CHECK_MESSAGE(std::abs(given / expected - 1) <= bound, given << ", not " << expected);
  }
}

/// Every order of modes gives the same second derivative.
void check_point(const Point& p, DType dtype, double bound) {
  CAPTURE(p.what);
  CAPTURE(p.x);
  CAPTURE(name(dtype));
  const Array x = full({}, p.x, dtype);
  const ScalarFunction slope = [&](const Array& v) { return grad(p.f)(v); };
  const ScalarFunction tangent = [&](const Array& v) { return forward(p.f, v); };
  const auto number = [](const Array& a) { return convert(a, float64).item<double>(); };
  is_near(number(p.f(x)), p.expected[0], bound);
  is_near(number(slope(x)), p.expected[1], bound);
  is_near(number(tangent(x)), p.expected[1], bound);
  is_near(number(grad(slope)(x)), p.expected[2], bound);
  is_near(number(grad(tangent)(x)), p.expected[2], bound);
  is_near(number(forward(slope, x)), p.expected[2], bound);
}

void check_points(const std::vector<Point>& points) {
  for (const Point& p : points) {
    check_point(p, float32, 2e-6);
    check_point(p, float64, 1e-14);
  }
}

ScalarFunction exact_gelu() {
  return [](const Array& x) { return gelu(x, false); };
}
ScalarFunction quick_gelu() {
  return [](const Array& x) { return gelu(x); };
}

}  // namespace

TEST_CASE("smooth functions have their first and second derivatives at the kinks of what they are made of") {
  const double ln2 = std::log(2.0);
  check_points({
      {"softplus", softplus, 0, {ln2, 0.5, 0.25}},
      {"log_sigmoid", log_sigmoid, 0, {-ln2, 0.5, -0.25}},
      {"squareplus", [](const Array& x) { return squareplus(x); }, 0, {1, 0.5, 0.25}},
      {"logaddexp of one", [](const Array& x) { return logaddexp(x, 3.0); }, 3, {3 + ln2, 0.5, 0.25}},
      {"logaddexp of both", [](const Array& x) { return logaddexp(x, 2 * x - 3.0); }, 3, {3 + ln2, 1.5, 0.25}},
      {"logaddexp2", [](const Array& x) { return logaddexp2(x, 3.0); }, 3, {4, 0.5, ln2 / 4}},
      {"hypot at equal lengths",
       [](const Array& x) { return hypot(x, 2.0); },
       2,
       {std::sqrt(8), std::sqrt(0.5), std::pow(8, -1.5) * 4}},
      {"hypot on an axis", [](const Array& x) { return hypot(x, 2.0); }, 0, {2, 0, 0.5}},
      {"betaln of equal numbers",
       [](const Array& x) { return betaln(x, 1.5); },
       1.5,
       {-0.934711655830435679, -0.886294361119890619, 0.539868133696452873}},
      {"i0", [](const Array& x) { return i0(x); }, 0, {1, 0, 0.5}},
      {"i1", [](const Array& x) { return i1(x); }, 0, {0, 0.5, 0}},
      {"sinc", [](const Array& x) { return sinc(x); }, 0, {1, 0, -std::pow(std::acos(-1), 2) / 3}},
      {"logistic", [](const Array& x) { return logistic(x); }, 0, {0.5, 0.25, 0}},
      {"tanh", [](const Array& x) { return tanh(x); }, 0, {0, 1, 0}},
  });
}

TEST_CASE("higher derivatives pass through the branches of a function as well") {
  const auto third = [](const auto& f) { return grad(grad(grad(f)))(array(0.0)).template item<double>(); };
  CHECK(third([](const Array& x) { return tanh(x); }) == doctest::Approx(-2));
  CHECK(third([](const Array& x) { return logistic(x); }) == doctest::Approx(-0.125));
  CHECK(std::abs(third([](const Array& x) { return softplus(x); })) < 1e-15);
  const auto fourth = grad(grad(grad(grad([](const Array& x) { return softplus(x); }))));
  CHECK(fourth(array(0.0)).item<double>() == doctest::Approx(-0.125));
}

TEST_CASE("derivatives in tails are as exact as values") {
  check_points({
      {"logistic",
       [](const Array& x) { return logistic(x); },
       20,
       {0.999999997938846382, 2.06115361394184934e-9, -2.06115360544514089e-9}},
      {"logistic",
       [](const Array& x) { return logistic(x); },
       40,
       {1, 4.24835425529158896e-18, -4.24835425529158892e-18}},
      {"tanh",
       [](const Array& x) { return tanh(x); },
       12,
       {0.999999999924497309, 1.51005381759762597e-10, -3.02010763496722569e-10}},
      {"expm1",
       [](const Array& x) { return expm1(x); },
       -20,
       {-0.999999997938846378, 2.06115362243855783e-9, 2.06115362243855783e-9}},
      {"elu",
       [](const Array& x) { return elu(x); },
       -20,
       {-0.999999997938846378, 2.06115362243855783e-9, 2.06115362243855783e-9}},
      {"erfc",
       [](const Array& x) { return erfc(x); },
       5,
       {1.53745979442803485e-12, -1.56708665310173353e-11, 1.56708665310173353e-10}},
      {"gelu", exact_gelu(), -5.5, {-1.04442593562382457e-7, -5.7334723987399248e-7, -3.04245721201847557e-6}},
      {"gelu", exact_gelu(), -9, {-1.01572956535845658e-18, -9.13893737390663925e-18, -8.12102112161844269e-17}},
  });
}

TEST_CASE("rectifiers of infinities are their limits, slopes too") {
  const std::vector<std::pair<std::string, ScalarFunction>> rectifiers = {{"silu", silu},
                                                                          {"gelu", exact_gelu()},
                                                                          {"gelu by tanh", quick_gelu()},
                                                                          {"mish", mish},
                                                                          {"hard_silu", hard_silu},
                                                                          {"squareplus", [](const Array& x) { return squareplus(x); }},
                                                                          {"softplus", softplus},
                                                                          {"sparse_plus", sparse_plus},
                                                                          {"relu", relu}};
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const auto& [what, f] : rectifiers) {
      check_point({what, f, -infinity, {0, 0, 0}}, dtype, 0);
      check_point({what, f, infinity, {infinity, 1, 0}}, dtype, 0);
    }
    check_point({"soft_sign", soft_sign, infinity, {1, 0, 0}}, dtype, 0);
    check_point({"elu", [](const Array& x) { return elu(x); }, -infinity, {-1, 0, 0}}, dtype, 0);
  }
}

TEST_CASE("a softmax's derivative holds what is left beside the largest element") {
  const double rest = 2 * std::exp(-20.0), slope = rest / ((1 + rest) * (1 + rest));
  const auto first = [](const Array& x) { return squeeze(slice_in_dim(x, 0, 1, 0), 0); };
  for (const DType dtype : {float32, float64}) {
    const Array x = convert(array({20.0, 0.0, 0.0}), dtype);
    const double bound = dtype == float32 ? 1e-6 : 1e-14;
    const auto check_first = [&](const ScalarFunction& f, double expected) {
      is_near(values(convert(grad(f)(x), float64))[0], expected, bound);
      const Array direction = convert(array({1.0, 0.0, 0.0}), dtype);
      is_near(values(convert(jvp(f, std::tuple(x), std::tuple(direction)).second, float64))[0], expected, bound);
    };
    check_first([&](const Array& v) { return first(softmax(v)); }, slope);
    check_first([&](const Array& v) { return first(log_softmax(v)); }, rest / (1 + rest));
    const Array all = full({3}, true, bool_);
    check_first([&](const Array& v) { return first(softmax(v, all)); }, slope);
    check_first([&](const Array& v) { return first(log_softmax(v, all)); }, rest / (1 + rest));
    is_near(values(convert(log_softmax(x), float64))[0], -std::log1p(rest), bound);
    is_near(convert(logsumexp(x - 20), float64).item<double>(), std::log1p(rest), bound);
  }
  // One infinite logit leaves nothing to the others.
  check_close(softmax(array({1.0, infinity, 0.0})), {3}, {0, 1, 0}, 0);
  check_close(log_softmax(array({1.0, infinity, -infinity})), {3}, {-infinity, 0, -infinity}, 0);
}

TEST_CASE("a guard hides no derivative that exists") {
  const double log_x = std::log(2.5);
  const Array x = array(2.5), none = array(0.0);
  for (const auto& [f, given] : {std::pair(&boxcox, x), std::pair(&boxcox1p, x - 1)}) {
    const auto of_power = [&f = f, &given = given](const Array& power) { return f(given, power); };
    check_point({"in the power", of_power, 0, {log_x, log_x * log_x / 2, std::pow(log_x, 3) / 3}}, float64, 1e-14);
    const auto mixed = grad([&f = f](const Array& v, const Array& power) { return grad<1>(f)(v, power); });
    CHECK(mixed(given, none).item<double>() == doctest::Approx(log_x / 2.5));
  }
  // d/dx x^y is y x^(y - 1), whose derivative in y at 0 is 1 / x; and so with a density's logarithm at shape 1.
  const auto slope = [](const Array& v, const Array& power) {
    return grad([&](const Array& u) { return pow(u, power); })(v);
  };
  CHECK(grad<1>(slope)(x, none).item<double>() == doctest::Approx(0.4));
  CHECK(grad(slope)(none, none).item<double>() == 0);

  const auto weighted = [](const Array& weights) { return logsumexp(array({1.0, 3.0}), weights); };
  check_close(grad(weighted)(array({2.0, 0.0})), {2}, {0.5, std::exp(2.0) / 2}, 1e-14);
  // An element of weight 0 may be anything.
  for (const double any : {infinity, -infinity, 1e300, std::nan("")}) {
    const Array logits = array({1.0, any}), weights = array({2.0, 0.0});
    CHECK(logsumexp(logits, weights).item<double>() == doctest::Approx(1 + std::log(2.0)));
    check_close(grad([&](const Array& v) { return logsumexp(v, weights); })(logits), {2}, {1, 0}, 1e-14);
  }
}

}  // namespace lockstep
