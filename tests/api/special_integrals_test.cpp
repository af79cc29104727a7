#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"
#include "tests/support/slopes.h"

using namespace lockstep;
using tests::check_close;
using tests::check_equal;
using tests::check_slopes;
using tests::expect_error;
using tests::infinity;
using tests::not_a_number;

namespace {

using F = Array (*)(const Array&);
const std::vector<std::pair<std::string, F>>& integral_functions() {
  static const std::vector<std::pair<std::string, F>> all = {
      {"dawsn", [](const Array& x) { return dawsn(x); }},
      {"erfcx", [](const Array& x) { return erfcx(x); }},
      {"sin_integral", [](const Array& x) { return sici(x).first; }},
      {"cos_integral", [](const Array& x) { return sici(x).second; }},
      {"fresnel_s", [](const Array& x) { return fresnel(x).first; }},
      {"fresnel_c", [](const Array& x) { return fresnel(x).second; }},
      {"owens_t", [](const Array& x) { return owens_t(x, mul(x, 0.5)); }},
      {"hyp1f1", [](const Array& x) { return hyp1f1(1.5, 2.5, x); }},
      {"hyp2f1", [](const Array& x) { return hyp2f1(1.5, 0.7, 2.5, mul(x, -0.4)); }},
      {"expn", [](const Array& x) { return expn(3, x); }},
      {"bessel_jn", [](const Array& x) { return bessel_jn(4, x); }},
      {"wofz", [](const Array& x) { return real(wofz(complex(x, mul(x, 0.3)))); }},
      {"sph_harm_y", [](const Array& x) { return real(sph_harm_y(4, 3, x, mul(x, 0.7))); }},
  };
  return all;
}

}  // namespace

// Expected numbers are those of SciPy 1.17.
TEST_CASE("integrals, Bessel functions and hypergeometric functions have SciPy's values") {
  const Array x = array({0.2, 1.5, 7.0});
  const auto [sine, cosine] = sici(x);
  check_close(sine, {3}, {0.19955608852623385, 1.3246835311721195, 1.4545966142480935}, 1e-14);
  check_close(cosine, {3}, {-1.0422055956727818, 0.47035631719539994, 0.07669527848218452}, 1e-14);
  const auto [s, c] = fresnel(x);
  check_close(s, {3}, {0.004187609161656763, 0.697504960082093, 0.49970478945344676}, 1e-14);
  check_close(c, {3}, {0.19992105759445308, 0.44526117603982157, 0.5454670925469698}, 1e-14);
  check_close(expn(3, x), {3}, {0.35194531211487057, 0.056739490170354324, 9.365652778973764e-05}, 1e-14);
  check_close(bessel_jn(4, x), {3}, {4.158340274471938e-06, 0.011768132420343793, 0.15779814466136782}, 1e-14);
  check_close(hyp2f1(1.5, x, 2.5, -0.3), {3}, {0.9679649898443126, 0.7868855407863368, 0.358675700747207}, 1e-14);
  check_equal(sici(neg(x)).second, cosine);
  check_equal(sici(neg(x)).first, neg(sine));
}

TEST_CASE("the Faddeeva function has SciPy's values in both half planes") {
  const Array z =
      complex(array({0.5, -1.2, 0.7, -3.0, 6.0, 20.0, 0.0, 1e3}), array({0.3, 2.0, -0.4, -0.5, 1e-6, -3.0, 0.0, 1.0}));
  const Array w = wofz(z);
  check_close(real(w), {8},
              {0.6148515391469911, 0.20492628701665475, 0.7259341870708356, -0.037440117100424296,
               1.6375340765768473e-08, -0.004153127198180633, 1, 5.64189865642407e-07},
              1e-12);
  check_close(imag(w), {8},
              {0.303124349647351, -0.10541089731994588, 1.0952994552430184, -0.19302847942731746, 0.09539620896910835,
               0.027619583484586804, 0, 0.0005641893014522592},
              1e-12);
  CHECK(wofz(array(0.5)).dtype() == complex128);
  CHECK(wofz(array(0.5f)).dtype() == complex64);
  const Array far = wofz(complex(array({infinity, 1e200, -infinity, 0.0}), array({0.0, 0.0, 1.0, infinity})));
  check_close(abs(far), {4}, {0, 0, 0, 0}, 1e-12);
}

TEST_CASE("spherical harmonics have SciPy's values, for negative orders and at the poles too") {
  const Array theta = array({0.3, 1.2, 2.9}), phi = array({0.5, -1.0, 4.0});
  struct Row {
    std::int64_t n, m;
    std::vector<double> real, imag;
  };
  const std::vector<Row> rows = {
      {0, 0, {0.28209479177387814, 0.28209479177387814, 0.28209479177387814}, {0, 0, 0}},
      {2, 0, {0.5481516197937817, -0.19115585460162732, 0.5766238623909271}, {0, 0, 0}},
      {3,
       2,
       {0.04606937013719988, -0.1338742749898773, 0.008264370791548346},
       {0.07174879292166096, -0.29252062751811647, -0.056195336741479994}},
      {3,
       -2,
       {0.04606937013719988, -0.1338742749898773, 0.008264370791548346},
       {-0.07174879292166096, 0.29252062751811647, 0.056195336741479994}},
      {4,
       -3,
       {0.0021830120865762885, -0.363548361902469, -0.014044631551333574},
       {-0.030783570182563835, 0.051822562229513425, -0.008930418416309153}},
      {5,
       5,
       {0.0008380848455902363, -0.09260059424923697, -0.00014847141633848784},
       {-0.0006260680666337262, -0.3130376984468969, -0.0003321544539661963}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.n);
    CAPTURE(row.m);
    const Array y = sph_harm_y(row.n, row.m, theta, phi);
    check_close(real(y), {3}, row.real, 1e-14);
    check_close(imag(y), {3}, row.imag, 1e-14);
  }
  check_close(real(sph_harm_y(2, 1, array({0.0}), 1.0)), {1}, {0}, 1e-14);
  // The sum over all orders of a degree's squares is (2n + 1) / 4 pi.
  Array sum_of_squares = zeros({3}, float64);
  for (std::int64_t m = -40; m <= 40; ++m) {
    const Array size = abs(sph_harm_y(40, m, theta, phi));
    sum_of_squares = add(sum_of_squares, mul(size, size));
  }
  check_close(mul(sum_of_squares, 4 * std::numbers::pi / 81), {3}, {1, 1, 1}, 1e-12);
}

TEST_CASE("derivatives of special integrals agree with differences, twice, batched and compiled") {
  const Array x = array({0.3, 0.8, 1.7, 2.6}), y = array({1.0, -2.0, 0.5, 3.0});
  for (const auto& [what, f] : integral_functions()) {
    CAPTURE(what);
    check_slopes([f = f](const Array& a, const Array& b) { return sum(mul(f(a), b)); }, x, y);
    const auto slope = grad([f = f](const Array& a) { return sum(f(a)); });
    check_slopes([&](const Array& a, const Array& b) { return sum(mul(slope(a), b)); }, x, y);
    check_equal(vmap(f)(reshape(x, {2, 2})), reshape(f(x), {2, 2}));
    check_equal(vmap(grad(f))(x), slope(x));
    check_equal(jit(f)(x), f(x));
    check_equal(jit(slope)(x), slope(x));
  }
}

TEST_CASE("special integrals take every float dtype, integers, no element and one") {
  const Array x = array({0.5, 1.0, 2.0});
  for (const auto& [what, f] : integral_functions()) {
    CAPTURE(what);
    CHECK(f(zeros({0}, float64)).shape() == Shape{0});
    CHECK(f(zeros({2, 0}, float32)).shape() == Shape{2, 0});
    CHECK(f(array(0.5)).shape() == Shape{});
    check_close(f(convert(x, float32)), {3}, tests::values(f(x)), 2e-6);
    if (what == "wofz" || what == "sph_harm_y") continue;  // complex numbers of 16-bit parts are no dtype
    for (const auto& [dtype, room] : {std::pair(float16, 4e-3), std::pair(bfloat16, 3e-2)}) {
      const Array narrow = f(convert(x, dtype));
      CHECK(narrow.dtype() == dtype);
      check_close(narrow, {3}, tests::values(f(x)), room);
    }
  }
  CHECK(dawsn(array({1, 2})).dtype() == float32);
  check_close(hyp2f1(array({1, 2}), 2, 5, 1.f), {2}, {2, 6}, 1e-6);
  CHECK(hyp2f1(zeros({3, 1}), zeros({2}), 1.f, 0.5f).shape() == Shape{3, 2});
}

TEST_CASE("special integrals at their ends") {
  const Array ends = array({0.0, infinity, -infinity, not_a_number});
  const double quarter_circle = std::numbers::pi / 2;
  check_close(sici(ends).first, {4}, {0, quarter_circle, -quarter_circle, not_a_number}, 1e-14);
  check_close(sici(ends).second, {4}, {-infinity, 0, 0, not_a_number}, 0);
  check_close(fresnel(ends).first, {4}, {0, 0.5, -0.5, not_a_number}, 0);
  check_close(bessel_jn(2, ends), {4}, {0, 0, 0, not_a_number}, 0);
  check_close(expn(1, ends), {4}, {infinity, 0, not_a_number, not_a_number}, 0);
  check_close(hyp2f1(0.5, 1.0, 2.0, ends), {4}, {1, infinity, 0, not_a_number}, 0);
  CHECK(std::signbit(sici(array(-0.0)).first.item<double>()));
}

TEST_CASE("special integrals refuse what they cannot take") {
  expect_error<ValueError>([] { bessel_jn(-1, array(2.f)); }, "bessel_jn", "n is -1; expected an order of 0");
  expect_error<ValueError>([] { expn(-2, array(2.f)); }, "expn", "n is -2; expected an order of 0");
  expect_error<ValueError>([] { sph_harm_y(2, 3, array(2.f), 1.f); }, "sph_harm_y", "n is 2 and m 3");
  expect_error<ValueError>([] { sph_harm_y(-1, 0, array(2.f), 1.f); }, "sph_harm_y", "n is -1 and m 0");
  expect_error<ShapeError>([] { hyp2f1(zeros({3}), zeros({2}), 1.f, 0.5f); }, "hyp2f1", "[2]");
  const Array z = complex(array(1.f), array(1.f));
  expect_error<DtypeError>([&] { dawsn(z); }, "dawsn", "expected a float dtype");
  expect_error<DtypeError>([&] { expn(2, z); }, "expn", "expected a float dtype");
  expect_error<DtypeError>([&] { hyp2f1(z, 1.f, 2.f, 0.5f); }, "hyp2f1", "expected a float dtype");
  expect_error<DtypeError>([&] { sici(z); }, "sin_integral", "expected a float dtype");
  expect_error<TraceError>([] { grad([](const Array& a) { return hyp1f1(a, 1.0, 0.5); })(array(2.0)); }, "hyp1f1",
                           "operand a");
  expect_error<TraceError>([] { grad([](const Array& c) { return hyp2f1(1.0, 1.0, c, 0.5); })(array(2.0)); }, "hyp2f1",
                           "operand c");
}
