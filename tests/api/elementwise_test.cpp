#include <string>

#include <doctest/doctest.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"
#include "tests/support/slopes.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::check_close;
using tests::check_slopes;
using tests::expect_error;
using tests::infinity;
using tests::not_a_number;
using tests::ValueRow;

namespace {

void check_elementwise(const std::vector<ValueRow>& rows) { tests::check_rows(rows, 1e-12); }

}  // namespace

// Expected numbers are those of JAX 0.10 in float64.
TEST_CASE("element-wise composites have JAX's values") {
  const Array x = array({-2.5, -0.5, 0.0, 0.3, 1.7, 4.0}), y = array({1.5, -2.0, 3.0, 0.3, -0.7, 2.0}),
              s = array({-infinity, infinity, not_a_number, -0.0, 0.0, 1.0}), q = array({0.2, 0.7, 1.0, 1.5, 3.0, 8.0}),
              i = array({7, -7, 7, -7, 5, 0}), j = array({2, 2, -2, -2, 3, 1}), k = array({2, 0, 3, 1, 4, 5});
  check_elementwise({
      {"log10",
       log10(q),
       {6},
       {-0.6989700043360187, -0.1549019599857432, 0, 0.1760912590556812, 0.4771212547196625, 0.9030899869919435}},
      {"logaddexp",
       logaddexp(x, y),
       {6},
       {1.51814992791781, -0.2985867220172476, 3.048587351573742, 0.9931471805599452, 1.78683615215395,
        4.126928011042972}},
      {"logaddexp of special",
       logaddexp(s, s),
       {6},
       {-infinity, infinity, not_a_number, 0.6931471805599453, 0.6931471805599453, 1.693147180559945}},
      {"logaddexp beside special",
       logaddexp(s, y),
       {6},
       {1.5, infinity, not_a_number, 0.854355244468527, 0.4031860488854578, 2.313261687518223}},
      {"logaddexp2",
       logaddexp2(x, y),
       {6},
       {1.587462841250339, -0.06324820456017595, 3.169925001442313, 1.3, 1.95031230053778, 4.321928094887363}},
      {"hypot",
       hypot(x, y),
       {6},
       {2.91547594742265, 2.06155281280883, 3, 0.4242640687119285, 1.838477631085024, 4.47213595499958}},
      {"hypot large",
       hypot(x * 1e300, y * 1e300),
       {6},
       {2.91547594742265e+300, 2.06155281280883e+300, 3e+300, 4.242640687119286e+299, 1.838477631085024e+300,
        4.47213595499958e+300}},
      {"trunc", trunc(x), {6}, {-2, -0, 0, 0, 1, 4}},
      {"round to decimals", round(x * 1.234, 1), {6}, {-3.1, -0.6000000000000001, 0, 0.4, 2.1, 4.9}},
      {"round to tens", round(x * 12.0, -1), {6}, {-30, -10, 0, 0, 20, 50}},
      {"sinc",
       sinc(x),
       {6},
       {0.1273239544735163, 0.6366197723675814, 1, 0.8583936913341398, -0.1514812396472012, -3.898171832519375e-17}},
      {"sinc near 0",
       sinc(x * 0.01),
       {6},
       {0.9989722332485385, 0.9999588771556648, 1, 0.9999851956591492, 0.9995246818476159, 0.9973701827725034}},
      {"deg2rad",
       deg2rad(x),
       {6},
       {-0.04363323129985824, -0.008726646259971648, 0, 0.005235987755982988, 0.0296705972839036, 0.06981317007977318}},
      {"rad2deg",
       rad2deg(x),
       {6},
       {-143.2394487827058, -28.64788975654116, 0, 17.1887338539247, 97.40282517223994, 229.1831180523293}},
      {"heaviside", heaviside(x, 0.5), {6}, {0, 0, 0.5, 1, 1, 1}},
      {"heaviside of special", heaviside(s, y), {6}, {0, 1, not_a_number, 0.3, -0.7, 1}},
      {"reciprocal",
       reciprocal(y),
       {6},
       {0.6666666666666666, -0.5, 0.3333333333333333, 3.333333333333333, -1.428571428571429, 0.5}},
      {"power",
       power(q, y),
       {6},
       {0.0894427190999916, 2.040816326530612, 1, 1.129346935456855, 0.4634630567719698, 64}},
      {"power by a number", power(x, 3), {6}, {-15.625, -0.125, 0, 0.027, 4.912999999999999, 64}},
      {"power by a negative",
       power(y, -2),
       {6},
       {0.4444444444444444, 0.25, 0.1111111111111111, 11.11111111111111, 2.040816326530613, 0.25}},
      {"integer_pow", integer_pow(x, 5), {6}, {-97.65625, -0.03125, 0, 0.00243, 14.19857, 1024}},
      {"floor_divide", floor_divide(x, y), {6}, {-2, -0, 0, 1, -3, 2}},
      {"remainder", remainder(x, y), {6}, {0.5, -0.5, 0, 0, -0.3999999999999999, 0}},
      {"mod by 0",
       mod(x, 0.0),
       {6},
       {not_a_number, not_a_number, not_a_number, not_a_number, not_a_number, not_a_number}},
      {"remainder of special", remainder(x, s), {6}, {-2.5, infinity, not_a_number, not_a_number, not_a_number, 0}},
      {"fmod", fmod(x, y), {6}, {-1, -0.5, 0, 0, 0.3, 0}},
      {"divmod", divmod(x, y).second, {6}, {0.5, -0.5, 0, 0, -0.3999999999999999, 0}},
      {"modf", modf(x).first, {6}, {-0.5, -0.5, 0, 0.3, 0.7, 0}},
      {"modf whole", modf(x).second, {6}, {-2, -0, 0, 0, 1, 4}},
      {"modf of special", modf(s).first, {6}, {-0.0, 0, not_a_number, 0, 0, 0}},
      {"integers: floor_divide", floor_divide(i, j), {6}, {3, -4, -4, 3, 1, 0}},
      {"integers: remainder", remainder(i, j), {6}, {1, 1, -1, -1, 2, 0}},
      {"integers: power", power(i, k), {6}, {49, 1, 343, -7, 625, 0}},
      {"integers: power by a number", power(i, 3), {6}, {343, -343, 343, -343, 125, 0}},
      {"integers: round", round(i, -1), {6}, {10, -10, 10, -10, 0, 0}},
      {"copysign", copysign(x, y), {6}, {2.5, -0.5, 0, 0.3, -1.7, 4}},
      {"copysign of zeros", copysign(y, s), {6}, {-1.5, 2, 3, -0.3, 0.7, 2}},
      {"signbit", signbit(s), {6}, {1, 0, 0, 1, 0, 0}},
      {"signbit of integers", signbit(i), {6}, {0, 1, 0, 1, 0, 0}},
      {"isnan", isnan(s), {6}, {0, 0, 1, 0, 0, 0}},
      {"isinf", isinf(s), {6}, {1, 1, 0, 0, 0, 0}},
      {"isposinf", isposinf(s), {6}, {0, 1, 0, 0, 0, 0}},
      {"isneginf", isneginf(s), {6}, {1, 0, 0, 0, 0, 0}},
      {"isnan of integers", isnan(i), {6}, {0, 0, 0, 0, 0, 0}},
      {"nan_to_num", nan_to_num(s), {6}, {-1.7976931348623157e+308, 1.7976931348623157e+308, 0, -0, 0, 1}},
      {"nan_to_num given", nan_to_num(s, 7, 8, 9), {6}, {9, 8, 7, -0, 0, 1}},
      {"fmax", fmax(s, y), {6}, {1.5, infinity, 3, 0.3, 0, 2}},
      {"fmin", fmin(s, y), {6}, {-infinity, -2, 3, -0, -0.7, 1}},
      {"clamp", clamp(-1.0, x, 1.0), {6}, {-1, -0.5, 0, 0.3, 1, 1}},
      {"logical_and", logical_and(x, i), {6}, {1, 1, 0, 1, 1, 0}},
      {"logical_or", logical_or(x, i), {6}, {1, 1, 1, 1, 1, 1}},
      {"logical_xor", logical_xor(x, i), {6}, {0, 0, 1, 0, 0, 1}},
      {"logical_not", logical_not(x), {6}, {0, 0, 1, 0, 0, 0}},
      {"isclose", isclose(x, x + 1e-6), {6}, {1, 1, 0, 1, 1, 1}},
      {"isclose special", isclose(s, s, 1e-5, 1e-8, true), {6}, {1, 1, 1, 1, 1, 1}},
      {"isclose special, not NaN", isclose(s, s), {6}, {1, 1, 0, 1, 1, 1}},
      {"allclose", allclose(x, x * (1 + 1e-7)), {}, {1}},
      {"array_equal", array_equal(x, x), {}, {1}},
      {"array_equal of other shapes", array_equal(x, ones({2})), {}, {0}},
      {"polyval", polyval(y, x), {6}, {-265.859375, 1.878125, 2, 1.885445, 21.009655, 1220}},
      {"angle",
       angle(complex(x, y)),
       {6},
       {2.601173153319209, -1.815774989921761, 1.570796326794897, 0.7853981633974483, -0.3906070436976868,
        0.4636476090008061}},
      {"real", real(complex(x, y)), {6}, {-2.5, -0.5, 0, 0.3, 1.7, 4}},
      {"imag", imag(conj(complex(x, y))), {6}, {-1.5, 2, -3, -0.3, 0.7, -2}},
      {"imag of real", imag(x), {6}, {0, 0, 0, 0, 0, 0}},
      {"abs of complex",
       abs(complex(x, y)),
       {6},
       {2.91547594742265, 2.06155281280883, 3, 0.4242640687119285, 1.838477631085024, 4.47213595499958}},
      {"exp of complex",
       imag(exp(complex(x, y))),
       {6},
       {0.08187937460273977, -0.5515167681675808, 0.1411200080598672, 0.3989105537784898, -3.526413728759288,
        49.64595733458057}},
      {"pow of complex",
       real(pow(complex(x, y), complex(y, x))),
       {6},
       {1120.354895830852, -0.09413265553032839, -4.95981953654678e-15, 0.6107469771979792, 0.3287550653458384,
        2.519081573722744}},
  });
}

TEST_CASE("derivatives of element-wise composites agree with differences") {
  const Array x = array({-2.5, -0.5, 0.4, 0.3, 1.7, 4.5}), y = array({1.5, -2.0, 3.0, 0.7, -0.7, 2.0});
  using F = Array (*)(const Array&, const Array&);
  const std::vector<std::pair<std::string, F>> functions = {
      {"logaddexp", [](const Array& a, const Array& b) { return logaddexp(a, b); }},
      {"logaddexp2", [](const Array& a, const Array& b) { return logaddexp2(a, b); }},
      {"hypot", [](const Array& a, const Array& b) { return hypot(a, b); }},
      {"sinc", [](const Array& a, const Array&) { return sinc(a * 0.02); }},
      {"remainder", [](const Array& a, const Array& b) { return remainder(a, b); }},
      {"copysign", [](const Array& a, const Array& b) { return copysign(a, b); }},
      {"power", [](const Array& a, const Array& b) { return power(a, 3) + power(abs(b), a); }},
      {"fmax", [](const Array& a, const Array& b) { return fmax(a, b) * fmin(a, b); }},
      {"angle", [](const Array& a, const Array& b) { return angle(complex(a, b)); }},
      {"complex", [](const Array& a, const Array& b) { return abs(exp(complex(a, b)) * complex(b, a)); }},
      {"polyval", [](const Array& a, const Array& b) { return polyval(a, b); }},
  };
  for (const auto& [what, f] : functions) {
    CAPTURE(what);
    const auto total = [f = f](const Array& a, const Array& b) { return sum(f(a, b)); };
    check_slopes(total, x, y);
  }
  check_close(grad([](const Array& a, const Array& b) { return sum(logaddexp(a, b)); })(array({0.0, -infinity}),
                                                                                        array({0.0, -infinity})),
              {2}, {0.5, 0.5}, 0);
  check_close(grad([](const Array& a) { return sum(clamp(0.0, a, 1.0)); })(array({0.0, 0.5, 1.0, 2.0})), {4},
              {0, 1, 0, 0}, 0);
  check_close(grad([](const Array& a, const Array& b) { return sum(hypot(a, b)); })(array({0.0}), array({0.0})), {1},
              {0}, 0);
}

TEST_CASE("element-wise composites keep dtypes and refuse what they cannot take") {
  CHECK(complex(array(1.f), 2).dtype() == complex64);
  CHECK(complex(array(1.f), array(2.0)).dtype() == complex128);
  CHECK(complex(convert(array(1.f), float16), 2).dtype() == complex64);
  CHECK(real(array(3)).dtype() == int32);
  CHECK(power(array(3), 2).dtype() == int32);
  CHECK(power(array(3), 2.0).dtype() == float32);
  CHECK(log10(array(3)).dtype() == float32);
  CHECK(signbit(convert(array(-1.f), bfloat16)).item<bool>());
  CHECK(nan_to_num(array({1, 2})).dtype() == int32);
  CHECK(round(array(125), -1).dtype() == int32);
  CHECK(population_count(array({0, 7})).to_vector<int>() == std::vector<int>{0, 3});
  expect_error<DtypeError>([] { signbit(complex(array(1.f), 0)); }, "signbit", "c64", "take real(x)");
  expect_error<DtypeError>([] { isposinf(complex(array(1.f), 0)); }, "isposinf", "c64", "take real(x)");
  expect_error<DtypeError>([] { isneginf(complex(array(1.f), 0)); }, "isneginf", "c64", "take real(x)");
  expect_error<DtypeError>([] { integer_pow(array(2), -1); }, "integer_pow", "an exponent of 0 or more");
  expect_error<ShapeError>([] { polyval(ones({2, 2}), 1.f); }, "polyval", "[2,2]", "one dimension");
  expect_error<ShapeError>([] { logaddexp(ones({2}), ones({3})); }, "logaddexp", "[2]", "[3]");
  expect_error<ValueError>([] { reduce_precision(ones({2}), 0, 7); }, "reduce_precision", "[1, 11]");
}
