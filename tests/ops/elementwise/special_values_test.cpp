#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/non_finite.h"
#include "tests/support/op_functions.h"
#include "tests/support/run_reference.h"

// What the drawn samples do not reach: NaN, infinities, ties, ends of ranges.
namespace lockstep::tests {
namespace {

const double pi = std::numbers::pi;

/// An op on arrays of one dtype; integers as doubles.
Elements apply_op(std::string_view op, DType dtype, const std::vector<Elements>& operands, const Attrs& attrs = {}) {
  std::vector<ir::ReferenceArray> inputs;
  for (const Elements& operand : operands) {
    inputs.push_back(reference_array({dtype, Shape{static_cast<std::int64_t>(operand.size())}, {}}, operand));
  }
  const ir::ReferenceArray result = run_reference(op, inputs, attrs)[0];
  if (is_float(result.type.dtype)) return result.floats();
  return {result.integers().begin(), result.integers().end()};
}

bool same_elements(const Elements& a, const Elements& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (!both_nan && (a[i] != b[i] || std::signbit(a[i]) != std::signbit(b[i]))) return false;
  }
  return true;
}

/// Tangent of a binary op in float64 at (a, b) along (da, db).
Elements binary_tangent(const ir::Primitive& op, const Elements& a, const Elements& b, const Elements& da,
                        const Elements& db) {
  const ArrayType type{DType::float64, Shape{static_cast<std::int64_t>(a.size())}, {}};
  const ir::Sample sample{{{type}, {type}}, {}, {}};
  return evaluate(jvp_function(op, sample, {true, true}), {a, b, da, db})[0];
}

Elements unary_tangent(const ir::Primitive& op, const Elements& x, const Elements& dx) {
  const ArrayType type{DType::float64, Shape{static_cast<std::int64_t>(x.size())}, {}};
  const ir::Sample sample{{{type}}, {}, {}};
  return evaluate(jvp_function(op, sample, {true}), {x, dx})[0];
}

}  // namespace

TEST_CASE("special values of element-wise ops") {
  struct Case {
    const char* op;
    DType dtype;
    std::vector<Elements> operands;
    Elements expected;
  };
  const std::vector<Case> cases = {
      {"round", float64, {{0.5, 1.5, 2.5, -0.5, -1.5, 0.4}}, {0, 2, 2, -0.0, -2, 0}},
      {"floor", float64, {{-0.5, 1.0, infinity}}, {-1, 1, infinity}},
      {"ceil", float64, {{-0.5, 1.0, -infinity}}, {-0.0, 1, -infinity}},
      {"sign", float64, {{-3, 0, -0.0, 5, not_a_number}}, {-1, 0, -0.0, 1, not_a_number}},
      {"sign", uint8, {{0, 255}}, {0, 1}},
      {"abs", int8, {{-128, -1}}, {-128, 1}},
      {"neg", uint8, {{1, 0}}, {255, 0}},
      {"is_finite", float32, {{1, infinity, -infinity, not_a_number}}, {1, 0, 0, 0}},
      {"maximum", float64, {{not_a_number, 1, 2}, {1, not_a_number, 3}}, {not_a_number, not_a_number, 3}},
      {"minimum", float64, {{not_a_number, 1, 2}, {1, not_a_number, 3}}, {not_a_number, not_a_number, 2}},
      {"maximum", DType::bool_, {{0, 0, 1, 1}, {0, 1, 0, 1}}, {0, 1, 1, 1}},
      {"div", int32, {{7, -7, 7, -7, 5}, {2, 2, -2, -2, 0}}, {3, -3, -3, 3, -1}},
      {"div", int8, {{-128}, {-1}}, {-128}},
      {"div", uint8, {{200, 7}, {3, 0}}, {66, 255}},
      {"rem", int32, {{7, -7, 7, -7, 5}, {2, 2, -2, -2, 0}}, {1, -1, 1, -1, 5}},
      {"rem", float64, {{5.5, -5.5, 1}, {2, 2, 0}}, {1.5, -1.5, not_a_number}},
      {"add", int8, {{127}, {1}}, {-128}},
      {"mul", uint8, {{16}, {17}}, {16}},
      {"add", float16, {{65504, 1}, {65504, 0.0004}}, {infinity, 1}},
      {"equal", float64, {{not_a_number, 0.0, 1}, {not_a_number, -0.0, 2}}, {0, 1, 0}},
      {"not_equal", float64, {{not_a_number, 0.0}, {not_a_number, -0.0}}, {1, 0}},
      {"less", float64, {{not_a_number, 1}, {1, not_a_number}}, {0, 0}},
      {"greater", uint8, {{200}, {100}}, {1}},
      {"pow", float64, {{0, 0, -2, 2, not_a_number}, {0, 3, 3, -1, 0}}, {1, 0, -8, 0.5, 1}},
      {"erf_inv", float64, {{1, -1, 0, 2, not_a_number}}, {infinity, -infinity, 0, not_a_number, not_a_number}},
      {"logistic", float64, {{1000, -1000}}, {1, 0}},
      {"log", float64, {{0, -1}}, {-infinity, not_a_number}},
      {"lgamma",
       float64,
       {{0, -1, infinity, -infinity, 1, 2, not_a_number}},
       {infinity, infinity, infinity, infinity, 0, 0, not_a_number}},
      {"digamma", float64, {{0, -1, infinity, not_a_number}}, {not_a_number, not_a_number, infinity, not_a_number}},
      {"bessel_j0", float64, {{0, infinity, -infinity, not_a_number}}, {1, 0, 0, not_a_number}},
      {"bessel_j1", float64, {{0, -0.0, infinity, not_a_number}}, {0, -0.0, 0, not_a_number}},
      {"exp1", float64, {{0, -0.5, infinity, 1000, not_a_number}}, {infinity, not_a_number, 0, 0, not_a_number}},
      {"dawsn", float64, {{0, -0.0, infinity, -infinity, not_a_number}}, {0, -0.0, 0, -0.0, not_a_number}},
      {"erfcx", float64, {{0, infinity, -30, not_a_number}}, {1, 0, infinity, not_a_number}},
      {"sin_integral",
       float64,
       {{0, -0.0, infinity, -infinity, not_a_number}},
       {0, -0.0, pi / 2, -pi / 2, not_a_number}},
      {"cos_integral", float64, {{0, -1, infinity, not_a_number}}, {-infinity, not_a_number, 0, not_a_number}},
      {"fresnel_s", float64, {{0, infinity, -infinity, not_a_number}}, {0, 0.5, -0.5, not_a_number}},
      {"fresnel_c", float64, {{0, infinity, -infinity, not_a_number}}, {0, 0.5, -0.5, not_a_number}},
      {"owens_t", float64, {{0, infinity, 1, not_a_number}, {1, 1, 0, 1}}, {0.125, 0, 0, not_a_number}},
      {"hyp1f1", float64, {{2, 1, 1, 0}, {2, 0, -1, 3}, {0, 1, 1, 5}}, {1, infinity, infinity, 1}},
      {"hyp1f1",
       float64,
       {{-1, 2, 1, not_a_number}, {-2, 3, 2, 1}, {1, -infinity, infinity, 1}},
       {1.5, 0, infinity, not_a_number}},
      {"hyp2f1", float64, {{0, 2, 1, 1}, {1, 2, 1, 1}, {1, 0, -1, 3}, {5, 0, 0.5, 1}}, {1, 1, infinity, 2}},
      {"hyp2f1",
       float64,
       {{1, 1, -2, not_a_number}, {1, 1, 1, 1}, {2, 1.5, 1, 1}, {1, 2, 3, 0}},
       {infinity, infinity, 4, not_a_number}},
      {"hyp2f1", float64, {{1, -1, 1}, {2, 1, 1}, {3, 1, 2}, {-infinity, -infinity, -0.0}}, {0, infinity, 1}},
      {"expi",
       float64,
       {{0, infinity, -infinity, 1000, not_a_number}},
       {-infinity, infinity, -0.0, infinity, not_a_number}},
      {"spence",
       float64,
       {{0, 1, -0.5, infinity, not_a_number}},
       {pi * pi / 6, 0, not_a_number, -infinity, not_a_number}},
      {"atan2", float64, {{0, -0.0, 1, infinity}, {1, 1, 0, infinity}}, {0, -0.0, pi / 2, pi / 4}},
      {"atan2", float64, {{0, -0.0}, {-1, -1}}, {pi, -pi}},
      {"igamma", float64, {{1, 1, 0, -1}, {0, infinity, 1, 1}}, {0, 1, 1, not_a_number}},
      {"igammac", float64, {{1, 1, 0, -1}, {0, infinity, 1, 1}}, {1, 0, 0, not_a_number}},
      {"betainc", float64, {{1, 1, 1, 0}, {1, 1, 1, 1}, {0, 1, 1.5, 0.5}}, {0, 1, not_a_number, 1}},
      {"bessel_i0e", float64, {{0, infinity, -infinity}}, {1, 0, 0}},
      {"bessel_i1e", float64, {{0, infinity, -infinity}}, {0, 0, -0.0}},
      {"cbrt", float64, {{-8, 0, -0.0}}, {-2, 0, -0.0}},
      {"erfc", float64, {{0, infinity, -infinity}}, {1, 0, 2}},
      {"acosh", float64, {{1, 0.5, infinity}}, {0, not_a_number, infinity}},
      {"atanh", float64, {{1, -1, 2}}, {infinity, -infinity, not_a_number}},
      {"exp2", float64, {{0, 10, -infinity, 2000}}, {1, 1024, 0, infinity}},
      {"clz", int8, {{0, 1, -1}}, {8, 7, 0}},
      {"clz", uint16, {{0, 256}}, {16, 7}},
      {"population_count", int8, {{0, 1, -1, -128}}, {0, 1, 8, 1}},
      {"shift_left", int8, {{1, 1, 1, -1}, {6, 7, 8, 1}}, {64, -128, 0, -2}},
      {"shift_right_arithmetic", int8, {{-128, -128, 64}, {1, 100, 8}}, {-64, -1, 0}},
      {"shift_right_arithmetic", uint8, {{255, 128, 127, 200}, {1, 100, 1, 0}}, {255, 255, 63, 200}},
      {"shift_right_logical", int8, {{-128, -1, -1}, {7, 1, 8}}, {1, 127, 0}},
      {"shift_right_logical", uint8, {{255, 255}, {4, 8}}, {15, 0}},
      {"bitwise_not", DType::bool_, {{0, 1}}, {1, 0}},
      {"bitwise_not", uint8, {{0, 1}}, {255, 254}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.op);
    CAPTURE(name(c.dtype));
    const Elements result = apply_op(c.op, c.dtype, c.operands);
    CHECK(same_elements(result, c.expected));
  }
}

TEST_CASE("nextafter steps in the dtype of its operands") {
  CHECK(apply_op("nextafter", float64, {{1}, {2}}) == Elements{std::nextafter(1.0, 2.0)});
  CHECK(apply_op("nextafter", float32, {{1}, {2}}) == Elements{1 + 0x1p-23});
  CHECK(apply_op("nextafter", float16, {{1, 1, 0, 0, 1}, {2, 0, 1, -1, 1}}) ==
        Elements{1 + 0x1p-10, 1 - 0x1p-11, 0x1p-24, -0x1p-24, 1});
  CHECK(apply_op("nextafter", bfloat16, {{1, -1}, {2, -2}}) == Elements{1 + 0x1p-7, -1 - 0x1p-7});
  CHECK(std::isnan(apply_op("nextafter", bfloat16, {{not_a_number}, {1}})[0]));
}

TEST_CASE("fma rounds once") {
  const double x = 1 + 0x1p-30;
  CHECK(apply_op("fma", float64, {{x}, {x}, {-1}}) == Elements{std::fma(x, x, -1.0)});
  CHECK(apply_op("fma", float64, {{x}, {x}, {-1}}) != Elements{x * x - 1});
}

TEST_CASE("erf_inv inverts erf over its whole range") {
  for (const double y : {1e-12, 1e-4, 0.3, 1.0, 2.0, 3.5, 5.0}) {
    CAPTURE(y);
    // Near 1 the argument itself is rounded: its neighbours' inverses are this far apart.
    const double spacing = 0x1p-53 / (1.1284 * std::exp(-y * y));
    CHECK(std::abs(apply_op("erf_inv", float64, {{std::erf(y)}})[0] - y) <= 4e-15 * y + spacing);
    CHECK(apply_op("erf_inv", float64, {{-std::erf(y)}})[0] == -apply_op("erf_inv", float64, {{std::erf(y)}})[0]);
  }
}

TEST_CASE("convert truncates towards zero, stops at the ends of the range and wraps integers") {
  const auto convert = [](DType from, const Elements& x, DType to) {
    return apply_op("convert", from, {x}, {{"dtype", to}});
  };
  CHECK(convert(float64, {1.9, -1.9, 300, -300, not_a_number, infinity}, int8) == Elements{1, -1, 127, -128, 0, 127});
  CHECK(convert(float64, {1.9, -1.9, 300}, uint8) == Elements{1, 0, 255});
  CHECK(convert(float64, {1e30, -1e30}, int64) == Elements{0x1p63, -0x1p63});
  CHECK(convert(int32, {300, -1}, uint8) == Elements{44, 255});
  CHECK(convert(int32, {200}, int8) == Elements{-56});
  CHECK(convert(float32, {0.5, 0, not_a_number}, DType::bool_) == Elements{1, 0, 1});
  CHECK(convert(DType::bool_, {0, 1}, float16) == Elements{0, 1});
  CHECK(convert(float64, {1 + 0x1p-30}, float32) == Elements{1});
  const ir::ReferenceArray large{{uint64, Shape{1}, {}}, std::vector<std::int64_t>{-1}};
  CHECK(run_reference("convert", {large}, {{"dtype", float64}})[0].floats() == std::vector<double>{0x1p64});
}

TEST_CASE("bitcast_convert puts the low bits first") {
  const ir::ReferenceArray x = reference_array({float64, Shape{1}, {}}, {1.0});
  const ir::ReferenceArray halves = run_reference("bitcast_convert", {x}, {{"dtype", uint32}})[0];
  CHECK(halves.type.shape == Shape{1, 2});
  CHECK(halves.integers() == std::vector<std::int64_t>{0, 0x3ff00000});
  CHECK(run_reference("bitcast_convert", {halves}, {{"dtype", float64}})[0].floats() == x.floats());
}

TEST_CASE("derivatives at ties and at zero") {
  using namespace ops::primitives;
  CHECK(binary_tangent(maximum(), {1, 1, 2}, {1, 2, 1}, {10, 10, 10}, {4, 4, 4}) == Elements{7, 4, 10});
  CHECK(binary_tangent(minimum(), {1, 1, 2}, {1, 2, 1}, {10, 10, 10}, {4, 4, 4}) == Elements{7, 10, 4});
  CHECK(unary_tangent(abs(), {0, -2}, {3, 3}) == Elements{0, -3});
  CHECK(binary_tangent(pow(), {2, 0, 0}, {0, 2, 0}, {1, 1, 1}, {0, 0, 0}) == Elements{0, 0, 0});
  CHECK(binary_tangent(pow(), {0, 0}, {2, 0}, {0, 0}, {1, 1}) == Elements{0, 0});
  CHECK(binary_tangent(rem(), {7}, {2}, {1}, {1}) == Elements{-2});
  CHECK(unary_tangent(stop_gradient(), {2}, {5}) == Elements{0});
  CHECK(unary_tangent(floor(), {2.5}, {5}) == Elements{0});
  CHECK(unary_tangent(sign(), {2.5}, {5}) == Elements{0});
  CHECK(unary_tangent(cbrt(), {0}, {1}) == Elements{infinity});
  CHECK(unary_tangent(bessel_i0e(), {0}, {1}) == Elements{0});
  CHECK(unary_tangent(bessel_i1e(), {0}, {2}) == Elements{1});
  CHECK(binary_tangent(igamma(), {1}, {0}, {0}, {3}) == Elements{3});
}

TEST_CASE("complex arithmetic") {
  const ArrayType type{complex64, Shape{1}, {}};
  const ir::ReferenceArray a{type, std::vector<std::complex<double>>{{1, 2}}};
  const ir::ReferenceArray b{type, std::vector<std::complex<double>>{{3, -1}}};
  using Numbers = std::vector<std::complex<double>>;
  CHECK(run_reference("mul", {a, b}, {})[0].complexes() == Numbers{{5, 5}});
  CHECK(run_reference("sub", {a, b}, {})[0].complexes() == Numbers{{-2, 3}});
  CHECK(run_reference("convert", {a}, {{"dtype", float32}})[0].floats() == std::vector<double>{1});
  CHECK(run_reference("equal", {a, a}, {})[0].integers() == std::vector<std::int64_t>{1});
}

TEST_CASE("integer_pow, zeta and reduce_precision by their attributes") {
  const auto power = [](DType dtype, const Elements& x, std::int64_t exponent) {
    return apply_op("integer_pow", dtype, {x}, {{"exponent", exponent}});
  };
  CHECK(power(float64, {0, 2, -2, not_a_number}, 0) == Elements{1, 1, 1, 1});
  CHECK(power(float64, {0, 2, -2}, -1) == Elements{infinity, 0.5, -0.5});
  CHECK(power(int8, {-128, 16, 3}, 2) == Elements{0, 0, 9});
  CHECK(power(uint8, {3, 255}, 6) == Elements{217, 1});
  CHECK(apply_op("zeta", float64, {{0, -1}}, {{"s", 2.0}}) == Elements{infinity, infinity});
  CHECK(
      same_elements(apply_op("expn", float64, {{0, -1, infinity}}, {{"n", std::int64_t{3}}}), {0.5, not_a_number, 0}));
  CHECK(apply_op("expn", float64, {{0, 0.0}}, {{"n", std::int64_t{0}}}) == Elements{infinity, infinity});
  CHECK(apply_op("bessel_jn", float64, {{0, infinity}}, {{"n", std::int64_t{3}}}) == Elements{0, 0});
  const Attrs half{{"exponent_bits", std::int64_t{5}}, {"mantissa_bits", std::int64_t{10}}};
  CHECK(same_elements(apply_op("reduce_precision", float32, {{70000, 1e-6, -1e-6, not_a_number}}, half),
                      {infinity, 0, -0.0, not_a_number}));
}

TEST_CASE("complex numbers at zero and across branch cuts") {
  using Numbers = std::vector<std::complex<double>>;
  const auto apply = [](std::string_view op, const std::vector<Numbers>& operands) {
    std::vector<ir::ReferenceArray> inputs;
    for (const Numbers& operand : operands) {
      inputs.push_back({{complex128, Shape{static_cast<std::int64_t>(operand.size())}, {}}, operand});
    }
    return run_reference(op, inputs, {})[0];
  };
  CHECK(apply("sqrt", {{{-4, 0}, {-4, -0.0}}}).complexes() == Numbers{{0, 2}, {0, -2}});
  CHECK(apply("sign", {{{3, 4}, {0, 0}}}).complexes() == Numbers{{0.6, 0.8}, {0, 0}});
  CHECK(apply("abs", {{{3, 4}, {0, 0}}}).floats() == std::vector<double>{5, 0});
  CHECK(apply("pow", {{{0, 0}, {0, 0}}, {{0, 0}, {2, 0}}}).complexes() == Numbers{{1, 0}, {0, 0}});
  CHECK(apply("conj", {{{1, 2}}}).complexes() == Numbers{{1, -2}});
  CHECK(std::abs(apply("expm1", {{{1e-20, 1e-20}}}).complexes()[0] - std::complex<double>(1e-20, 1e-20)) < 1e-35);
  CHECK(std::abs(apply("log1p", {{{1e-20, 1e-20}}}).complexes()[0] - std::complex<double>(1e-20, 1e-20)) < 1e-35);
}

}  // namespace lockstep::tests
