#include <cmath>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::check_equal;
using tests::check_same_bits;
using tests::expect_error;
using tests::wave;

namespace {

struct State {
  Array position, speed;
};
LOCKSTEP_TREE(State, position, speed);

/// x[i] of an array of rank 1 or more.
Array row_at(const Array& x, std::int64_t i) { return squeeze(slice_in_dim(x, i, i + 1, 0), {0}); }

/// Eager, compiled and evaluated alike, bit for bit; the value.
template <class F, class... Args>
Array run_alike(const F& f, const Args&... args) {
  const Array eager = f(args...);
  check_same_bits(jit(f)(args...), eager);
  check_same_bits(trace_function(f, args...).eval({args...})[0], eager);
  return eager;
}

/// A recurrent cell over the rows of x, its last state and all outputs in one number.
Array by_scan(const Array& w, const Array& x) {
  const auto cell = [&](const Array& h, const Array& row) {
    const Array next = tanh(h * w + row);
    return std::pair(next, next * h);
  };
  const auto [last, ys] = scan(cell, zeros({3}, float64), x);
  return sum(last * last) + sum(ys);
}
Array by_hand(const Array& w, const Array& x) {
  Array h = zeros({3}, float64), total = zeros({}, float64);
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    const Array next = tanh(h * w + row_at(x, i));
    total = total + sum(next * h);
    h = next;
  }
  return sum(h * h) + total;
}

/// The derivative of a function to a scalar along d, by central differences, extrapolated once.
template <class F>
double slope(const F& f, const Array& at, const Array& d) {
  const auto by = [&](double h) {
    return (f(at + d * h).template item<double>() - f(at - d * h).template item<double>()) / (2 * h);
  };
  return by(5e-4) + (by(5e-4) - by(1e-3)) / 3;
}

template <class F>
auto summed_grad(const F& f) {
  return [f](const Array& x) { return sum(grad(f)(x) * wave(x.shape(), 0.3)); };
}

}  // namespace

TEST_CASE("scan carries and stacks") {
  const auto sums = [](const Array& xs) {
    const auto [total, parts] =
        scan([](const Array& c, const Array& x) { return std::pair(c + x, c * 2.0f); }, zeros({2}), xs);
    return concatenate({reshape(total, {1, 2}), parts}, 0);
  };
  const Array xs = reshape(convert(arange(6), float32), {3, 2});
  check_close(run_alike(sums, xs), {4, 2}, {6, 9, 0, 0, 0, 2, 4, 8});
}

TEST_CASE("carries and results are trees of the caller's own types") {
  const auto step = [](const State& s, const std::tuple<Array, Array>& push) {
    const State next{s.position + s.speed, s.speed * std::get<0>(push) + std::get<1>(push)};
    return std::pair(next, std::vector<Array>{next.position, s.speed});
  };
  const auto [last, track] =
      scan(step, State{array(0.f), array(1.f)}, std::tuple(array({0.5f, 0.5f, 1.f}), array({0.f, 1.f, 0.f})));
  check_close(last.position, {}, {2.75});
  check_close(last.speed, {}, {1.25});
  check_close(track[0], {3}, {1, 1.5, 2.75});
  check_close(track[1], {3}, {1, 0.5, 1.25});
}

TEST_CASE("a loop without xs, and one that starts from a C++ scalar") {
  const auto [last, all] = scan([](const Array& c) { return std::pair(c * 2, c); }, 1, {.length = 5});
  check_close(last, {}, {32});
  CHECK(last.dtype() == int32);
  check_close(all, {5}, {1, 2, 4, 8, 16});
}

TEST_CASE("length 0 returns what it started from; reverse walks from the end") {
  const auto step = [](const Array& c, const Array& x) { return std::pair(c * 0.5f + x, c); };
  const auto [none, empty] = scan(step, array({3.f}), zeros({0, 1}));
  check_close(none, {1}, {3});
  check_close(empty, {0, 1}, {});
  const auto back = [&](const Array& xs) {
    const auto [c, ys] = scan(step, zeros({1}), xs, {.reverse = true});
    return concatenate({c, reshape(ys, {-1})}, 0);
  };
  check_close(run_alike(back, reshape(array({1.f, 2.f, 4.f}), {3, 1})), {4}, {3, 4, 4, 0});
  const auto loss = [&](const Array& c) { return sum(scan(step, c, zeros({0, 1})).first * 3.f); };
  check_close(grad(loss)(array({3.f})), {1}, {3});
  const Array five = wave({5, 1});
  const auto ys = [&](const ScanOptions& options) {
    return jit([&](const Array& xs) { return scan(step, array({3.f}), convert(xs, float32), options); })(five);
  };
  for (const bool reverse : {false, true}) {
    check_equal(ys({.reverse = reverse, .unroll = 2}).first, ys({.reverse = reverse}).first);
    check_equal(ys({.reverse = reverse, .unroll = 2}).second, ys({.reverse = reverse}).second);
  }
}

TEST_CASE("gradients of scan, of orders 1, 2 and 3, against the program written out and differences") {
  const Array w = wave({3}), x = wave({4, 3}, 1), d = wave({3}, 0.5);
  check_equal(run_alike(by_scan, w, x), by_hand(w, x));
  const auto loop = [&](const Array& v) { return by_scan(v, x); };
  const auto hand = [&](const Array& v) { return by_hand(v, x); };
  check_equal(run_alike([&](const Array& v) { return grad(loop)(v); }, w), grad(hand)(w));
  check_equal(grad([&](const Array& v) { return by_scan(w, v); })(x),
              grad([&](const Array& v) { return by_hand(w, v); })(x));
  CHECK(sum(grad(loop)(w) * d).item<double>() == doctest::Approx(slope(loop, w, d)).epsilon(1e-8));
  const auto second = summed_grad(loop);
  check_equal(run_alike([&](const Array& v) { return grad(second)(v); }, w), grad(summed_grad(hand))(w));
  CHECK(sum(grad(second)(w) * d).item<double>() == doctest::Approx(slope(second, w, d)).epsilon(1e-8));
  const auto third = summed_grad(second);
  check_equal(grad(third)(w), grad(summed_grad(summed_grad(hand)))(w), 1e-10);
  CHECK(sum(grad(third)(w) * d).item<double>() == doctest::Approx(slope(third, w, d)).epsilon(1e-7));
}

TEST_CASE("scans within scans") {
  const auto nested = [](const auto& inner) {
    return [inner](const Array& w, const Array& x) {
      return scan([&](const Array& c, const Array& r) { return std::pair(inner(c, w) + r, sum(c)); },
                  zeros({3}, float64), x)
          .first;
    };
  };
  const auto f = nested([](const Array& c, const Array& w) {
    return scan([&](const Array& h) { return std::pair(sin(h) * w + c, h); }, c, {.length = 3}).first;
  });
  const auto g = nested([](const Array& c, const Array& w) {
    Array h = c;
    for (int i = 0; i < 3; ++i) h = sin(h) * w + c;
    return h;
  });
  const Array w = wave({3}), x = wave({2, 3}, 2);
  check_equal(run_alike(f, w, x), g(w, x));
  const auto loss = [&](const auto& h) { return [&](const Array& v) { return sum(h(v, x) * wave({3}, 1)); }; };
  check_equal(grad(loss(f))(w), grad(loss(g))(w));
  check_equal(grad(summed_grad(loss(f)))(w), grad(summed_grad(loss(g)))(w), 1e-11);
}

TEST_CASE("vmap of scan is a loop over it, whatever is batched; so is its gradient") {
  const Array w = wave({2, 3}), x = wave({2, 4, 3}, 1);
  const auto each = [](const auto& f) { return stack(std::vector<Array>{f(0), f(1)}, 0); };
  const auto gradient = [](const Array& v, const Array& r) { return grad(by_scan)(v, r); };
  const auto check = [&](const auto& f) {
    check_equal(vmap(f)(w, x), each([&](int i) { return f(row_at(w, i), row_at(x, i)); }));
    check_equal(vmap(f, {.in_axes = {0, std::nullopt}})(w, row_at(x, 0)),
                each([&](int i) { return f(row_at(w, i), row_at(x, 0)); }));
    check_equal(vmap(f, {.in_axes = {std::nullopt, 0}})(row_at(w, 0), x),
                each([&](int i) { return f(row_at(w, 0), row_at(x, i)); }));
  };
  check(by_scan);
  check(gradient);
  const auto total = [&](const Array& v) { return sum(vmap(by_scan)(v, x)); };
  check_equal(run_alike([&](const Array& v) { return grad(total)(v); }, w), vmap(gradient)(w, x));
}

TEST_CASE("cond runs one of two functions") {
  const auto f = [](const Array& p, const Array& x) {
    return cond(
        p, [](const Array& v) { return v * 2.f; }, [](const Array& v) { return v + 1.f; }, x);
  };
  check_close(run_alike(f, array(true), array({1.f, 3.f})), {2}, {2, 6});
  check_close(run_alike(f, array(false), array({1.f, 3.f})), {2}, {2, 4});
  check_close(cond(
                  true, [] { return array(1.f); }, [] { return array(2.f); }),
              {}, {1});
  const auto at = [&](bool p) { return grad([&](const Array& x) { return sum(f(array(p), x)); })(array({1.f, 3.f})); };
  check_close(at(true), {2}, {2, 2});
  check_close(at(false), {2}, {1, 1});
}

TEST_CASE("switch_ clamps its index, and is differentiated in the branch it takes") {
  const Array w = wave({3}, 2);
  const auto f = [&](const Array& i, const Array& x) {
    return switch_(i,
                   {[](const Array& v) { return sin(v); }, [&](const Array& v) { return exp(v) * w * v; },
                    [](const Array& v) { return zeros_like(v); }},
                   x);
  };
  const Array x = wave({3});
  const auto written = [&](int i, const Array& v) { return i <= 0 ? sin(v) : i == 1 ? exp(v) * w * v : zeros_like(v); };
  for (const int i : {-3, 0, 1, 2, 7}) {
    CAPTURE(i);
    check_same_bits(run_alike(f, array(i), x), written(i, x));
    const auto loss = [&](const Array& v) { return sum(f(array(i), v) * x); };
    const auto plain = [&](const Array& v) { return sum(written(i, v) * x); };
    check_equal(grad(loss)(x), grad(plain)(x));
    check_equal(grad(summed_grad(loss))(x), grad(summed_grad(plain))(x));
    check_equal(jvp([&](const Array& v) { return f(array(i), v); }, std::tuple(x), std::tuple(w)).second,
                jvp([&](const Array& v) { return written(i, v); }, std::tuple(x), std::tuple(w)).second);
  }
  check_same_bits(f(array(std::int64_t{1} << 40), x), zeros_like(x));
  const Array many = array({-3, 1, 5});
  check_same_bits(vmap(f)(many, wave({3, 3})),
                  stack(std::vector<Array>{written(-3, row_at(wave({3, 3}), 0)), written(1, row_at(wave({3, 3}), 1)),
                                           written(5, row_at(wave({3, 3}), 2))},
                        0));
}

TEST_CASE("the gradient of a batch of conds is not touched by the branch that is not taken") {
  const auto safe = [](const Array& x) {
    return cond(
        x < 1e-3f, [](const Array&) { return array(1e-3f); }, [](const Array& v) { return sqrt(v); }, x);
  };
  const auto loss = [&](const Array& x) { return sum(vmap(safe)(x)); };
  check_close(run_alike([&](const Array& x) { return grad(loss)(x); }, zeros({10})), {10}, std::vector<double>(10, 0));
  check_close(vmap(grad(safe))(array({0.f, 4.f})), {2}, {0, 0.25});
  check_close(grad(loss)(array({0.f, 4.f})), {2}, {0, 0.25});
}

TEST_CASE("while_loop goes on while its condition holds") {
  const auto collatz = [](const Array& start) {
    const auto [n, steps] =
        while_loop([](const std::pair<Array, Array>& s) { return s.first > 1; },
                   [](const std::pair<Array, Array>& s) {
                     const Array half = shift_right_arithmetic(s.first, 1);
                     return std::pair(where((s.first & 1) == 0, half, s.first * 3 + 1), s.second + 1);
                   },
                   std::pair(start, full({}, 0, int32)));
    return steps;
  };
  check_close(run_alike(collatz, array(27)), {}, {111});
  check_close(run_alike(collatz, array(1)), {}, {0});
  check_close(run_alike([&](const Array& starts) { return vmap(collatz)(starts); }, array({1, 6, 27, 2})), {4},
              {0, 8, 111, 1});
}

TEST_CASE("while_loop under vmap: one bound for all, bounds of their own, a batch of captured values") {
  const auto power = [](const Array& x, const Array& n) {
    return fori_loop(
        0, n, [&](const Array&, const Array& c) { return c * x; }, ones_like(x));
  };
  const Array x = array({2.f, 3.f}), n = array({3, 2});
  check_close(vmap(power)(x, n), {2}, {8, 9});
  check_close(vmap(power, {.in_axes = {0, std::nullopt}})(x, array(2)), {2}, {4, 9});
  check_close(vmap(power, {.in_axes = {std::nullopt, 0}})(array(2.f), n), {2}, {8, 4});
}

TEST_CASE("jvp of while_loop; reverse mode is refused and says what to write") {
  const auto root = [](const Array& a) {  // Newton's square root
    return while_loop([&](const Array& x) { return abs(x * x - a) > 1e-10; },
                      [&](const Array& x) { return (x + a / x) * 0.5; }, ones_like(a));
  };
  const auto [y, dy] = jvp(root, std::tuple(array(2.0)), std::tuple(array(1.0)));
  check_close(y, {}, {std::sqrt(2.0)}, 1e-9);
  check_close(dy, {}, {0.5 / std::sqrt(2.0)}, 1e-6);
  expect_error<TraceError>([&] { grad(root)(array(2.0)); }, "while_loop", "reverse mode", "scan");
  check_close(grad([&](const Array& a) { return a * root(stop_gradient(a)); })(array(4.0)), {}, {2}, 1e-9);
}

TEST_CASE("fori_loop with static bounds can be differentiated in reverse") {
  const auto f = [](const Array& x) {
    return sum(fori_loop(
        2, 5, [&](const Array& i, const Array& c) { return c * x + convert(i, float64); }, x));
  };
  const auto g = [](const Array& x) {
    Array c = x;
    for (int i = 2; i < 5; ++i) c = c * x + i;
    return sum(c);
  };
  const Array x = wave({3});
  check_equal(run_alike(f, x), g(x));
  check_equal(grad(f)(x), grad(g)(x));
  check_close(fori_loop(
                  3, 1, [](const Array&, const Array& c) { return c + 1; }, array(7)),
              {}, {7});
  check_close(fori_loop(
                  array(1), 4, [](const Array& i, const Array& c) { return c + i; }, 0),
              {}, {6});
}

TEST_CASE("map applies a function to one row after the other") {
  const Array x = wave({4, 3});
  const auto f = [](const Array& v) { return map([](const Array& r) { return sum(r * r); }, v); };
  check_equal(run_alike(f, x), sum(x * x, Axes{1}));
  check_equal(grad([&](const Array& v) { return sum(f(v)); })(x), 2 * x);
}

TEST_CASE("associative_scan gives every prefix") {
  for (const std::int64_t n : {0, 1, 2, 3, 5, 8, 13}) {
    CAPTURE(n);
    const Array a = wave({n, 2}), b = wave({n, 2}, 1);
    const auto join = [](const std::tuple<Array, Array>& l, const std::tuple<Array, Array>& r) {
      return std::tuple(std::get<0>(l) * std::get<0>(r), std::get<1>(l) * std::get<0>(r) + std::get<1>(r));
    };
    const auto step = [](const Array& h, const std::tuple<Array, Array>& ab) {
      const Array next = h * std::get<0>(ab) + std::get<1>(ab);
      return std::pair(next, next);
    };
    for (const bool reverse : {false, true}) {
      const Array expected = scan(step, zeros({2}, float64), std::tuple(a, b), {.reverse = reverse}).second;
      check_equal(std::get<1>(associative_scan(join, std::tuple(a, b), {.reverse = reverse})), expected);
    }
  }
  const auto add = [](const Array& l, const Array& r) { return l + r; };
  check_close(associative_scan(add, reshape(arange(6), {2, 3}), {.axis = -1}), {2, 3}, {0, 1, 3, 3, 7, 12});
  expect_error<ShapeError>(
      [&] { associative_scan([](const auto& l, const auto&) { return l; }, std::tuple(zeros({2}), zeros({3}))); },
      "associative_scan", "f32[3]", "one extent");
}

TEST_CASE("a carry of another type is named by its path, with both types") {
  const auto widened = [](const State& s, const Array& x) { return std::pair(State{s.position, s.speed + x}, x); };
  expect_error<DtypeError>(
      [&] {
        scan(widened, State{array(0.f), array(0)}, array({1.f}));
      },
      "scan", "dtypes do not match", "\"speed\"", "i32[]", "f32[]");
  expect_error<DtypeError>(
      [] { scan([](const Array& c, const Array& x) { return std::pair(c + x, c); }, array(0), array({1.f})); },
      "dtypes do not match", "carry is i32[]", "f32[]", "convert(init, float32)");
  expect_error<ShapeError>(
      [] {
        scan([](const Array& c, const Array& x) { return std::pair(c + x, c); }, zeros({}), zeros({2, 3}));
      },
      "shapes do not match", "f32[]", "f32[3]");
  expect_error<StateError>(
      [] {
        scan(
            [](const Tree& c, const Array& x) {
              return std::pair(Tree::list({c, c}), x);
            },
            Tree(zeros({})), zeros({2}));
      },
      "scan", "structure", "a leaf");
  expect_error<DtypeError>(
      [] { while_loop([](const Array& c) { return c < 3; }, [](const Array& c) { return c * 1.5f; }, array(1)); },
      "while_loop", "dtypes do not match", "i32[]", "f32[]");
}

TEST_CASE("branches of different types are refused, both named") {
  const Array x = zeros({1});
  expect_error<ShapeError>(
      [&] {
        cond(
            array(true), [](const Array& v) { return v; }, [](const Array& v) { return sum(v); }, x);
      },
      "cond", "shapes do not match", "f32[] from false_fn", "f32[1] from true_fn");
  expect_error<DtypeError>(
      [&] {
        switch_(array(0), {[](const Array& v) { return v; }, [](const Array& v) { return convert(v, int32); }}, x);
      },
      "switch_", "dtypes do not match", "f32[1] from branch 0", "i32[1] from branch 1");
  expect_error<StateError>(
      [&] {
        cond(
            array(true), [](const Array& v) { return std::vector<Array>{v}; },
            [](const Array& v) {
              return std::vector<Array>{v, v};
            },
            x);
      },
      "cond", "same structure");
}

TEST_CASE("what loops and branches refuse") {
  const auto step = [](const Array& c, const Array& x) { return std::pair(c, x); };
  const auto pairs = [](const Array& c, const std::pair<Array, Array>& x) { return std::pair(c, x); };
  expect_error<ShapeError>([&] { scan(step, 0, array(1.f)); }, "scan", "f32[]", "no first dimension");
  expect_error<ShapeError>([&] { scan(pairs, 0, std::pair(zeros({2}), zeros({3}))); }, "xs \"1\"", "f32[3]",
                           "is not 2");
  expect_error<ShapeError>([&] { scan(step, 0, zeros({2}), {.length = 3}); }, "is not 3, the length given");
  expect_error<ValueError>([&] { scan([](const Array& c) { return std::pair(c, c); }, 0, ScanOptions{}); },
                           "set length");
  expect_error<ValueError>([&] { scan([](const Array& c) { return std::pair(c, c); }, 0, {.length = -1}); }, "-1");
  expect_error<ValueError>([&] { scan(step, 0, zeros({2}), {.unroll = 0}); }, "unroll is 0");
  const auto same = [](const Array& c) { return c; };
  expect_error<DtypeError>([&] { while_loop(same, same, 1); }, "while_loop", "i32[]", "bool scalar");
  expect_error<ShapeError>([&] { while_loop([](const Array& c) { return c < 2; }, same, zeros({2})); }, "bool[2]");
  expect_error<ShapeError>([&] { cond(array({true, false}), same, same, array(1)); }, "bool[2]", "where");
  expect_error<DtypeError>([&] { switch_(array(1.f), {same}, array(1)); }, "f32[]", "an integer");
  expect_error<ValueError>([&] { switch_<Array, Array>(array(1), {}, array(1)); }, "no branches");
}

TEST_CASE("a loop's body is traced once, and its arrays are captured") {
  int traces = 0;
  const Array w = array({2.f});
  const auto f = [&](const Array& x) {
    return scan(
               [&](const Array& c, const Array& r) {
                 ++traces;
                 return std::pair(c * w + r, c);
               },
               zeros({1}), x)
        .first;
  };
  const Function traced = trace_function(f, ones({100, 1}));
  CHECK(traces == 1);
  CHECK(traced.count("mul") == 1);
  CHECK(parse_function(traced.to_string()).to_string() == traced.to_string());
}

TEST_CASE("a cell's products with its inputs are one product in front of the loop, and so are their derivatives") {
  const auto f = [](const Array& w, const Array& x) {
    const auto cell = [&](const Array& h, const Array& r) {
      const Array next = tanh(matmul(r, w * 0.5) + h);
      return std::pair(next, next);
    };
    return sum(scan(cell, zeros({2, 4}, float64), x).second);
  };
  const Array w = wave({3, 4}), x = wave({5, 2, 3}, 1);
  const Function traced = trace_function(f, w, x);
  const std::string text = traced.to_string();
  CHECK(traced.count("dot_general") == 1);
  CHECK(text.find("dot_general") < text.find("scan["));
  run_alike(f, w, x);
  // Both gradients are products behind the backward loop.
  const Function slope = trace_function(grad<0, 1>(f), w, x);
  const std::string backward = slope.to_string();
  CHECK(slope.count("dot_general") == 3);
  CHECK(backward.find("dot_general") < backward.find("scan["));
  CHECK(backward.find("dot_general", backward.rfind(" unroll=")) != std::string::npos);
  const auto by_hand = [](const Array& w, const Array& x) {
    Array h = zeros({2, 4}, float64), total = zeros({}, float64);
    for (std::int64_t i = 0; i < 5; ++i) {
      h = tanh(matmul(row_at(x, i), w * 0.5) + h);
      total = total + sum(h);
    }
    return total;
  };
  check_close(f(w, x), {}, by_hand(w, x).to_vector<double>());
  check_close(grad(f)(w, x), {3, 4}, grad(by_hand)(w, x).to_vector<double>());
}
