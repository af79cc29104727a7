#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/debug.h>
#include <lockstep/derivatives.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/reductions.h>
#include <lockstep/remat.h>
#include <lockstep/transforms.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::check_equal;
using tests::expect_error;
using tests::wave;

// Linear functions made of programs: `linearize`, its batches and its transposes, whatever stands in the program.
namespace {

/// Newton's square root.
Array root(const Array& a) {
  return while_loop([&](const Array& x) { return any(abs(x * x - a) > 1e-12); },
                    [&](const Array& x) { return (x + a / x) * 0.5; }, ones_like(a));
}

struct LinearProgram {
  std::string what;
  std::function<Array(const Array&)> function;  ///< [3] to [3].
};

std::vector<LinearProgram> linear_programs() {
  const auto twice = [](const Array& v) { return v * v * 2.0; };
  return {
      {"cond",
       [=](const Array& x) {
         return cond(
             sum(x) > 0.0, twice, [](const Array& v) { return sin(v); }, x);
       }},
      {"switch_",
       [=](const Array& x) {
         return switch_(convert(x[0] * 3.0, int32),
                        {[](const Array& v) { return sin(v); }, twice, [](const Array& v) { return v[0] * v; }}, x);
       }},
      {"cond of a captured value",
       [=](const Array& x) {
         return cond(
             x[0] > 0.0, [&](const Array& v) { return v * x * x[1]; }, [&](const Array& v) { return v * sin(x); },
             x[2]);
       }},
      {"scan",
       [](const Array& x) {
         return scan([](const Array& c, const Array& v) { return std::pair(tanh(c * v), c * v); }, ones({}, float64), x)
             .second;
       }},
      {"scan over cond",
       [=](const Array& x) {
         const auto body = [=](const Array& c, const Array& v) {
           return std::pair(cond(
                                v > 0.0, twice, [](const Array& u) { return u * 3.0; }, c * v),
                            c);
         };
         return scan(body, ones({}, float64), x).second;
       }},
      {"fori_loop",
       [](const Array& x) {
         return fori_loop(
             0, 3, [&](const Array&, const Array& c) { return c * x; }, x);
       }},
      {"map", [=](const Array& x) { return map(twice, x); }},
      {"custom_jvp",
       [](const Array& x) {
         return custom_jvp([](const Array& v) { return exp(v); },
                           [](const std::tuple<Array>& v, const std::tuple<Array>& dv) {
                             const Array y = exp(std::get<0>(v));
                             return std::pair(y, std::get<0>(dv) * y);
                           })(x);
       }},
      {"remat", [](const Array& x) { return remat([](const Array& v) { return sin(v) * v; })(x); }},
      {"remat of cond",
       [=](const Array& x) {
         return remat([=](const Array& v) {
           return cond(
               v[0] > 0.0, twice, [](const Array& u) { return sin(u); }, v);
         })(x);
       }},
      {"gather", [](const Array& x) { return take(x, convert(clip(x * 3.0, 0, 2), int32), 0) * x; }},
      {"dynamic_slice",
       [](const Array& x) {
         const Array start = convert(clip(x[0] * 2.0, 0, 1), int32);
         return dynamic_update_slice(x * x, dynamic_slice(x, {start}, {2}), {start});
       }},
      {"scatter", [](const Array& x) { return at(x * 2.0, convert(clip(x * 3.0, 0, 2), int32)).add(x * x); }},
      {"sort", [](const Array& x) { return sort(x * x, 0); }},
      {"where", [](const Array& x) { return where(x > 0.0, x * x, sin(x)); }},
      {"cumsum", [](const Array& x) { return cumsum(x * x, 0); }},
      {"a jitted function", [](const Array& x) { return jit([](const Array& v) { return sin(v) * v; })(x); }},
  };
}

}  // namespace

TEST_CASE("while_loop in forward mode: linearize, jacfwd, and both again") {
  const Array a = array({2.0, 9.0, 0.25});
  const std::vector<double> slopes = {0.5 / std::sqrt(2.0), 1.0 / 6, 1.0};  // 1 / (2 sqrt(a))
  const auto [y, forth] = linearize(root, a);
  check_close(y, {3}, {std::sqrt(2.0), 3, 0.5}, 1e-9);
  check_close(forth(ones({3}, float64)), {3}, slopes, 1e-6);
  check_close(forth(array({2.0, 0.0, -1.0})), {3}, {2 * slopes[0], 0, -slopes[2]}, 1e-6);
  const Array expected = eye(3, float64) * array(slopes);
  check_equal(jacfwd(root)(a), expected, 1e-6);
  check_equal(jit([](const Array& v) { return jacfwd(root)(v); })(a), expected, 1e-6);
  // JAX: jax.linearize of a function whose iterations differ between the examples of a vmap.
  check_close(vmap([](const Array& v) { return linearize(root, v).second(ones_like(v)); })(a), {3}, slopes, 1e-6);
  // d2/da2 sqrt(a) = -1 / (4 a sqrt(a))
  check_close(jacfwd(jacfwd(root))(array(4.0)), {}, {-1.0 / 32}, 1e-6);
  check_close(
      jvp([](const Array& v) { return jacfwd(root)(v); }, std::tuple(array(4.0)), std::tuple(array(1.0))).second, {},
      {-1.0 / 32}, 1e-6);
}

TEST_CASE("a while_loop with carries that no tangent reaches, and one that all tangents reach") {
  // x^n for an n that is data: (n, product).
  const auto power = [](const Array& x, const Array& n) {
    return while_loop([](const std::pair<Array, Array>& s) { return s.first > 0; },
                      [&](const std::pair<Array, Array>& s) { return std::pair(s.first - 1, s.second * x); },
                      std::pair(n, ones_like(x)))
        .second;
  };
  const Array x = array({2.0, -1.5}), n = array(3);
  const auto of_x = [&](const Array& v) { return power(v, n); };
  check_equal(linearize(of_x, x).second(ones_like(x)), x * x * 3.0);
  check_equal(jacfwd(of_x)(x), eye(2, float64) * x * x * 3.0);
  check_equal(jacfwd(of_x)(x), jacfwd([](const Array& v) { return v * v * v; })(x));
  const auto doubled = [](const Array& v) {
    return fori_loop(
        array(0), array(3), [](const Array&, const Array& c) { return c * 2.0; }, v);
  };
  check_equal(linearize(doubled, x).second(x), x * 8.0);
  check_equal(jacfwd(doubled)(x), eye(2, float64) * 8.0);
}

TEST_CASE("reverse mode of while_loop is refused where a cotangent would pass it, and nowhere else") {
  const Array a = array({2.0, 9.0});
  expect_error<TraceError>([&] { vjp(root, a); }, "while_loop", "reverse mode", "scan", "forward mode");
  expect_error<TraceError>([&] { jacrev(root)(a); }, "while_loop", "reverse mode", "scan");
  expect_error<TraceError>([&] { linear_transpose(linearize(root, a).second, a); }, "while_loop", "reverse mode");
  // The loop's result is passed on beside the loss.
  const auto f = [](const Array& v) { return std::pair(sum(v * v), root(v)); };
  check_equal(grad(f)(a), a * 2.0);
}

TEST_CASE("effects of a loop that is linearized happen once") {
  int lines = 0;
  set_debug_sink([&](std::string_view) { ++lines; });
  const auto noisy = [](const Array& x) {
    return while_loop([](const Array& c) { return c < 10.0; },
                      [&](const Array& c) {
                        debug_print("c = {}", c);
                        return c * x;
                      },
                      x);
  };
  const auto [y, forth] = linearize(noisy, array(3.0));  // 3, 9, 27
  CHECK(lines == 2);
  check_close(forth(array(1.0)), {}, {27});
  CHECK(lines == 2);
  set_debug_sink({});
  check_close(y, {}, {27});
}

TEST_CASE("linear functions of every kind of program can be batched and transposed in any order") {
  const Array rows = stack({array({0.9, -0.4, 0.3}), array({-0.2, 0.8, -0.7}), array({0.4, 0.5, 0.6})}, 0);
  const Array tangents = wave({3, 3}), cotangents = wave({3, 3}, 0.4);
  for (const LinearProgram& program : linear_programs()) {
    CAPTURE(program.what);
    const auto& f = program.function;
    const auto row = [](const Array& m, std::int64_t i) { return m[i]; };
    std::vector<Array> forth, back;  // one example after the other, by jvp and vjp
    for (std::int64_t i = 0; i < 3; ++i) {
      forth.push_back(jvp(f, std::tuple(row(rows, i)), std::tuple(row(tangents, i))).second);
      back.push_back(std::get<0>(vjp(f, row(rows, i)).second(row(cotangents, i))));
    }
    const Array expected_forth = stack(forth, 0), expected_back = stack(back, 0);
    const auto pushed = [&](const Array& x, const Array& t) { return linearize(f, x).second(t); };
    const auto pulled = [&](const Array& x, const Array& u) {
      return std::get<0>(linear_transpose([&](const Array& t) { return pushed(x, t); }, x)(u));
    };
    check_equal(vmap(pushed)(rows, tangents), expected_forth);
    check_equal(vmap(pulled)(rows, cotangents), expected_back);
    const auto of_batch = [&](const Array& t) { return vmap(pushed)(rows, t); };
    check_equal(std::get<0>(linear_transpose(of_batch, tangents)(cotangents)), expected_back);
    const auto linear = linearize([&](const Array& x) { return vmap(f)(x); }, rows).second;
    check_equal(linear(tangents), expected_forth);
    const auto back_again = linear_transpose(linear, tangents);
    check_equal(std::get<0>(back_again(cotangents)), expected_back);
    const auto forth_again = linear_transpose([&](const Array& u) { return std::get<0>(back_again(u)); }, cotangents);
    check_equal(std::get<0>(forth_again(tangents)), expected_forth);
    check_equal(
        vmap([&](const Array& x, const Array& u) { return std::get<0>(vjp(f, x).second(u)); })(rows, cotangents),
        expected_back);
  }
}

TEST_CASE("what stop_gradient returns is constant for transposes as for derivatives") {
  const Array x = array({1.0, 2.0}), u = array({3.0, 5.0});
  const auto f = [](const Array& v) { return v * 2.0 + stop_gradient(v); };
  check_equal(std::get<0>(linear_transpose(f, x)(u)), u * 2.0);
  check_equal(std::get<0>(vjp(f, x).second(u)), u * 2.0);
}
