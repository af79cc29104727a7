#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/custom_derivatives.h>
#include <lockstep/derivatives.h>
#include <lockstep/einsum.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/reductions.h>
#include <lockstep/remat.h>
#include <lockstep/sequential_map.h>
#include <lockstep/transforms.h>
#include <lockstep/weak_types.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;
using tests::expect_error;

namespace weakly {

struct Options {
  Array w;
  double rate = 0;
  int power = 1;
};
LOCKSTEP_TREE(Options, w, rate, power);

struct Hyper {
  Array rate, momentum;
};
LOCKSTEP_TREE(Hyper, rate, momentum);

const std::vector<DType> dtypes = {bool_,  int8,   int16,   int32,    int64,   uint8,  uint16,
                                   uint32, uint64, float16, bfloat16, float32, float64};

/// A formula of an array and a number that is called with the number itself and compiled with it unknown.
template <class Formula>
void check_formula(const char* what, const Formula& formula, const std::vector<double>& numbers) {
  CAPTURE(what);
  for (const DType dtype : dtypes) {
    CAPTURE(name(dtype));
    const Array x = convert(convert(arange(6), float32) * 1.37F + 0.25F, dtype);
    const auto compiled = jit(formula);
    for (const double number : numbers) check_same_bits(compiled(x, number), formula(x, number));
    CHECK(compiled.traces() == 1);
  }
}

}  // namespace weakly

TEST_CASE("a number given to a compiled function has the dtype and bits of a literal in its place") {
  const std::vector<double> numbers = {0.1, 1.0 / 3, 2, 0.7853981633974483, 1e-3, 117.000000001};
  const auto check = [&](const char* what, const auto& formula) { weakly::check_formula(what, formula, numbers); };
  check("product", [](const Array& x, auto v) { return x * v; });
  check("difference", [](const Array& x, auto v) { return v - x; });
  check("quotient", [](const Array& x, auto v) { return x / v; });
  check("double arithmetic", [](const Array& x, auto v) { return x * (1.0 - v * v) + v / 3; });
  check("negative", [](const Array& x, auto v) { return x + -v; });
  check("function of it", [](const Array& x, auto v) { return x * lockstep::exp(v); });
  check("functions of it", [](const Array& x, auto v) { return x * (v * lockstep::tanh(v) + maximum(v, 0.5)); });
  check("chosen", [](const Array& x, auto v) { return where(x > v, x, v); });
  check("limit", [](const Array& x, auto v) { return maximum(x, v); });
  check("power", [](const Array& x, auto v) { return power(x, v); });
  check("filled", [](const Array& x, auto v) { return x * full({6}, v); });
  check("joined functions", [](const Array& x, auto v) { return logaddexp(x, v) + hypot(x, v); });
}

TEST_CASE("integers and truth values given to a compiled function are weak, too") {
  const auto product = [](const Array& x, auto v) { return x * v + v; };
  const auto mixed = [](const Array& x, auto v) { return x * (v + 0.1) / (1.5 - v); };
  for (const DType dtype : weakly::dtypes) {
    CAPTURE(name(dtype));
    const Array x = convert(arange(5), dtype);
    const auto integer = jit(product), truth = jit(product);
    const auto real = jit(mixed);
    for (const int v : {0, 1, 3, 7, 11}) {
      check_same_bits(integer(x, v), product(x, v));
      check_same_bits(real(x, v), mixed(x, v));
    }
    for (const bool v : {false, true}) check_same_bits(truth(x, v), product(x, v));
    CHECK(integer.traces() == 1);
    CHECK(real.traces() == 1);
    CHECK(truth.traces() == 1);
  }
}

TEST_CASE("one trace serves all values of a number") {
  int runs = 0;
  const auto step = jit([&runs](const Array& w, const Array& g, const Array& rate) { return ++runs, w - rate * g; });
  Array w = ones({3});
  for (int i = 1; i <= 1000; ++i) w = step(std::move(w), ones({3}), 1.0 / i);
  CHECK(step.traces() == 1);
  CHECK(runs == 1);
  step(w, w, 0.5F);  // a float is a double
  CHECK(step.traces() == 1);
  step(w, w, 3);
  step(w, w, 4L);
  step(w, w, std::uint8_t{5});
  CHECK(step.traces() == 2);
  step(w, w, array(0.5F));
  CHECK(step.traces() == 3);
  CHECK(step.retrace_reasons() == std::vector<std::string>{"first call", "argument 2: a number became a weak i32[]",
                                                           "argument 2: a weak i32[] became f32[]"});
}

TEST_CASE("a number stays static where the function takes a number, and where it is asked for") {
  const Array x = array({1.F, 2.F});
  const auto declared = jit([](const Array& a, double v, int n) {
    Array y = a;
    for (int i = 0; i < n; ++i) y = y * v;
    return y;
  });
  check_close(declared(x, 2.0, 3), {2}, {8, 16});
  check_close(declared(x, 3.0, 2), {2}, {9, 18});
  CHECK(declared.traces() == 2);
  const auto power = [](const Array& a, auto n, auto v) {
    Array y = a;
    for (int i = 0; i < n; ++i) y = y * v;
    return y;
  };
  const auto asked = jit(power, static_argnums<1>);
  for (const double v : {2.0, 3.0, 4.0}) check_close(asked(x, 2, v), {2}, {v * v, 2 * v * v});
  CHECK(asked.traces() == 1);
  check_close(asked(x, 3, 2.0), {2}, {8, 16});
  CHECK(asked.traces() == 2);
  CHECK(asked.retrace_reasons()[1] == "argument 1: 2 became 3");
  expect_error<TraceError>([&] { jit(power)(x, 2, 2.0); }, "bool[]", "cond");
  // Each argument for itself.
  const auto both = jit([](const Array& v, const Array& a, double scale) { return a * v * scale; });
  for (const double v : {1.0, 2.0, 3.0}) check_close(both(v, x, 0.5), {2}, {v / 2, v});
  CHECK(both.traces() == 1);
  const auto inside = jit(grad([](const Array& a, double scale) { return sum(a * a) * scale; }));
  check_close(inside(x, 2.0), {2}, {4, 8});
  check_close(inside(x, 3.0), {2}, {6, 12});
  CHECK(inside.traces() == 2);
}

TEST_CASE("numbers in structs are static, in containers weak where the function takes arrays") {
  const Array x = array({1.F, 2.F});
  const auto of_struct = jit([](const weakly::Options& o) { return o.w * o.rate * o.power; });
  check_close(of_struct(weakly::Options{x, 0.5, 2}), {2}, {1, 2});
  check_close(of_struct(weakly::Options{x, 0.25, 2}), {2}, {0.5, 1});
  CHECK(of_struct.retrace_reasons()[1] == "argument 0/rate: 0.5 became 0.25");

  const auto hyper = jit([](const Array& a, const weakly::Hyper& h) { return a * h.rate + h.momentum; });
  for (int i = 0; i < 20; ++i) {
    const double rate = 0.1 * i;
    const Array b = convert(x, bfloat16);
    check_same_bits(hyper(b, weakly::Hyper{weak_scalar(rate), weak_scalar(i)}), b * rate + i);
  }
  CHECK(hyper.traces() == 1);

  const auto list = jit([](const Array& a, const std::vector<Array>& v) { return a * v[0] + v[1]; });
  const auto map = jit([](const Array& a, const std::map<std::string, Array>& v) { return a * v.at("k"); });
  const auto maybe = jit([](const Array& a, const std::optional<Array>& v) { return v ? a * *v : a; });
  const auto pair = jit([](const Array& a, const auto& v) { return a * v.first + v.second; });
  const auto fixed = jit([](const Array& a, const std::vector<double>& v) { return a * v[0]; });
  for (const DType dtype : {float16, float32, float64, int32}) {
    const Array a = convert(x, dtype);
    for (const double v : {0.1, 0.2, 0.3}) {
      check_same_bits(list(a, std::vector<double>{v, 2 * v}), a * v + 2 * v);
      check_same_bits(map(a, std::map<std::string, double>{{"k", v}}), a * v);
      check_same_bits(maybe(a, std::optional<double>(v)), a * v);
      check_same_bits(pair(a, std::pair(v, 3)), a * v + 3);
    }
  }
  CHECK(list.traces() == 4);
  CHECK(map.traces() == 4);
  CHECK(maybe.traces() == 4);
  CHECK(pair.traces() == 4);
  check_same_bits(maybe(x, std::optional<double>()), x);
  fixed(x, std::vector<double>{1});
  fixed(x, std::vector<double>{2});
  CHECK(fixed.traces() == 2);
}

TEST_CASE("numbers alone have the default dtypes") {
  // JAX: jit(f)(2.0).dtype is float32, of 2 int32, of True bool, all weak.
  const auto same = jit([](const Array& v) { return v; });
  CHECK(same(2.5).dtype() == float32);
  CHECK(same(2).dtype() == int32);
  CHECK(same(true).dtype() == bool_);
  CHECK(same(3'000'000'000).dtype() == int64);
  CHECK(is_weak_type(same(2.5)));
  CHECK(same.traces() == 4);
  CHECK(!is_weak_type(same(array(2.5))));
  CHECK(same(array(2.5)).dtype() == float64);

  check_same_bits(jit([](const Array& v) { return exp(v); })(2.1), lockstep::exp(2.1));
  check_same_bits(jit([](const Array& v) { return v.astype(float64); })(0.1), array(0.1));
  check_same_bits(jit([](const Array& v) { return convert(v * 3, bfloat16); })(0.1), convert(array(0.1 * 3), bfloat16));

  // What comes out keeps its digits on its way in again.
  const auto halved = jit([](const Array& v) { return v / 2; });
  Array v = weak_scalar(0.1);
  for (int i = 0; i < 10; ++i) v = halved(v);
  CHECK(halved.traces() == 1);
  check_same_bits(ones({2}, float64) * v, ones({2}, float64) * (0.1 / 1024));
}

TEST_CASE("results of weak values are weak, as JAX's") {
  // jax: jit(lambda x, v: x * f(v))(bfloat16 x, 0.1) is bfloat16 for each of these f.
  const Array x = ones({3}, bfloat16);
  const auto of = [&](const auto& f) { return jit([&f](const Array& a, const Array& v) { return a * f(v); })(x, 0.1); };
  CHECK(of([](const Array& v) { return v * 2; }).dtype() == bfloat16);
  CHECK(of([](const Array& v) { return exp(v) + 1; }).dtype() == bfloat16);
  CHECK(of([](const Array& v) { return maximum(v, 0.2) / sqrt(v); }).dtype() == bfloat16);
  CHECK(of([](const Array& v) { return broadcast_to(v, {3}); }).dtype() == bfloat16);
  CHECK(of([](const Array& v) { return reshape(v, {1}); }).dtype() == bfloat16);
  CHECK(of([](const Array& v) { return power(v, 3); }).dtype() == bfloat16);
  const auto of_rows = [&](const auto& product) {
    return jit([&product](const Array& a, const Array& v) { return product(a, broadcast_to(v, {3})); })(x, 0.1).dtype();
  };
  CHECK(of_rows([](const Array& a, const Array& b) { return matmul(a, b); }) == bfloat16);
  CHECK(of_rows([](const Array& a, const Array& b) { return linalg::outer(b, a); }) == bfloat16);
  CHECK(of_rows([](const Array& a, const Array& b) { return einsum("i,i->", {a, b}); }) == bfloat16);
  CHECK(of_rows([](const Array& a, const Array& b) { return dot_general(b, a, {{0}, {0}}); }) == bfloat16);
  // and float32 for these
  CHECK(of([](const Array& v) { return v.astype(float32); }).dtype() == float32);
  CHECK(of([](const Array& v) { return v * array(2.F); }).dtype() == float32);
  CHECK(jit([](const Array& a, const Array& v) {
          return stack({a, v}, 0);
        })(ones({}, bfloat16), 0.1)
            .dtype() == bfloat16);
  CHECK((ones({2}, bfloat16) * lockstep::exp(0.1)).dtype() == bfloat16);
}

TEST_CASE("an integer that its array cannot hold is an error, compiled too") {
  const auto sum = jit([](const Array& x, const Array& n) { return x + n; });
  expect_error<ValueError>([&] { sum(ones({2}, int32), 5'000'000'000); }, "add", "5000000000", "int32");
  check_same_bits(sum(ones({2}, int64), 5'000'000'000), ones({2}, int64) + 5'000'000'000);
  check_same_bits(sum(ones({2}, float64), 5'000'000'000), ones({2}, float64) + 5'000'000'000);
  check_same_bits(sum(ones({2}, int8), 100), ones({2}, int8) + 100);
  expect_error<ValueError>([&] { sum(ones({2}, int8), 300); }, "add", "300", "int8");
  expect_error<ValueError>([&] { sum(ones({2}, uint8), -1); }, "add", "-1", "uint8");
  check_same_bits(sum(ones({2}, int8), 101), ones({2}, int8) + 101);
}
