#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;
using tests::expect_error;

namespace {

struct Line {
  Array w, b;
};
LOCKSTEP_TREE(Line, w, b);

Array squared_loss(const Line& p, const Array& x) { return sum(square(p.w * x + p.b)); }

}  // namespace

TEST_CASE("value and gradient of a struct") {
  const Line p{array({1.f, 2.f}), array({0.5f, -1.f})};
  const Array x = array({3.f, 4.f});
  const auto check = [&](const std::pair<Array, Line>& result) {
    check_close(result.first, {}, {12.25 + 49});
    check_close(result.second.w, {2}, {21, 56});
    check_close(result.second.b, {2}, {7, 14});
  };
  check(value_and_grad(squared_loss)(p, x));
  check(jit([](const Line& q, const Array& y) { return value_and_grad(squared_loss)(q, y); })(p, x));
  check_close(grad<1>(squared_loss)(p, x), {2}, {7, 28});
}

TEST_CASE("auxiliary results pass through") {
  const auto f = [](const Array& w) {
    return std::pair(sum(w * w), std::map<std::string, Array>{{"twice", w * 2}, {"index", argmax(w, 0)}});
  };
  const auto [result, gradient] = value_and_grad(f)(array({1.f, 3.f}));
  check_close(result.first, {}, {10});
  check_close(result.second.at("twice"), {2}, {2, 6});
  check_close(result.second.at("index"), {}, {1});
  check_close(gradient, {2}, {2, 6});
}

TEST_CASE("gradients have their argument's structure") {
  const auto f = [](const std::tuple<std::vector<Array>, int, std::optional<Array>>& t) {
    return sum(std::get<0>(t)[0] * static_cast<float>(std::get<1>(t))) + sum(std::get<0>(t)[1]);
  };
  const auto gradient = grad(f)(std::tuple(std::vector<Array>{ones({2}), ones({3})}, 5, std::optional<Array>()));
  check_close(std::get<0>(gradient)[0], {2}, {5, 5});
  check_close(std::get<0>(gradient)[1], {3}, {1, 1, 1});
  CHECK(std::get<1>(gradient) == 5);
  CHECK(!std::get<2>(gradient).has_value());
}

TEST_CASE("gradients of composites against formulas") {
  struct Row {
    const char* what;
    std::function<Array(const Array&)> function;
    std::vector<double> x;
    std::vector<double> expected;
  };
  const std::vector<Row> rows = {
      {"relu at 0", [](const Array& x) { return sum(relu(x)); }, {-1, 0, 2}, {0, 0, 1}},
      {"softplus at 0", [](const Array& x) { return sum(softplus(x)); }, {0, 50, -50}, {0.5, 1, 0}},
      {"logsumexp", [](const Array& x) { return logsumexp(x); }, {0, 0, 0, 0}, {0.25, 0.25, 0.25, 0.25}},
      {"log_softmax", [](const Array& x) { return sum(slice_in_dim(log_softmax(x), 0, 1, 0)); }, {1, 1}, {0.5, -0.5}},
      {"max", [](const Array& x) { return max(x); }, {1, 5, 2}, {0, 1, 0}},
      {"mean", [](const Array& x) { return mean(x); }, {1, 5, 2, 3}, {0.25, 0.25, 0.25, 0.25}},
      {"var", [](const Array& x) { return var(x); }, {1, 3}, {-1, 1}},
      {"clip", [](const Array& x) { return sum(clip(x, -1, 1)); }, {-3, 0.5, 4}, {0, 1, 0}},
      {"where", [](const Array& x) { return sum(where(x > 0, x * 3, x)); }, {-3, 2}, {1, 3}},
      {"matmul", [](const Array& x) { return matmul(x, x); }, {1, 2, 3}, {2, 4, 6}},
      {"take_rows",
       [](const Array& x) {
         return sum(take_rows(x, array({1, 1, 0})));
       },
       {1, 2, 3},
       {1, 2, 0}},
      {"integer detour",
       [](const Array& x) { return sum(x * convert(convert(x, int32), float64)); },
       {2.5, 3.5},
       {2, 3}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Array x = array(row.x);
    check_close(grad(row.function)(x), x.shape(), row.expected);
  }
}

TEST_CASE("what cannot be differentiated is refused by path") {
  const auto sum_all = [](const Line& p) { return sum(p.w) + sum(convert(p.b, float32)); };
  expect_error<DtypeError>([&] { grad(sum_all)(Line{ones({2}), arange(2)}); }, "argument 0/b", "i32[2]");
  expect_error<ShapeError>([] { grad([](const Array& x) { return x * 2; })(ones({3})); }, "f32[3]", "sum or mean");
  expect_error<DtypeError>([] { grad([](const Array& x) { return argmax(x, 0); })(ones({3})); }, "i32[]");
  expect_error<ShapeError>([] { grad([](const Array&) { return std::vector<Array>(); })(ones({3})); }, "no array");
  expect_error<ValueError>(
      [] { detail::value_and_grad([](const std::vector<Tree>& t) { return t[0]; }, {Tree(array(1.f))}, {1}); },
      "no argument 1");
}

TEST_CASE("arguments that are not differentiated may be integers") {
  const auto f = [](const Array& w, const Array& i) { return sum(take_rows(w, i)); };
  check_close(grad(f)(ones({3}), array({2, 2})), {3}, {0, 0, 2});
  const Array index = array({0});
  check_close(grad([&](const Array& w) { return sum(take_rows(w, index)); })(ones({2})), {2}, {1, 0});
}

TEST_CASE("gradients nest") {
  const auto cube = [](const Array& x) { return x * x * x; };
  const auto first = grad(cube);
  const auto second = grad(first);
  const auto third = grad(second);
  CHECK(first(array(2.0)).item<double>() == 12);
  CHECK(second(array(2.0)).item<double>() == 12);
  CHECK(third(array(2.0)).item<double>() == 6);
  CHECK(jit(third)(array(2.0)).item<double>() == 6);
}

TEST_CASE("jvp gives the directional derivative") {
  const auto f = [](const Array& x, const Line& p) { return std::pair(sum(x * p.w), argmax(x, 0)); };
  const Line p{array({3.f, 4.f}), array({1, 2})};
  const auto [y, dy] =
      jvp(f, std::tuple(array({1.f, 2.f}), p), std::tuple(array({1.f, 0.f}), Line{array({0.f, 1.f}), array({0, 0})}));
  check_close(y.first, {}, {11});
  check_close(y.second, {}, {1});
  check_close(dy.first, {}, {3 + 2});
  check_close(dy.second, {}, {0});
  CHECK(dy.second.dtype() == int32);
  const auto square_of = [](const Array& x) { return x * x; };
  expect_error<ShapeError>([&] { jvp(square_of, std::tuple(ones({2})), std::tuple(ones({3}))); }, "jvp", "f32[3]",
                           "f32[2]");
  expect_error<DtypeError>([&] { jvp(square_of, std::tuple(ones({2})), std::tuple(ones({2}, float64))); }, "jvp",
                           "f64[2]");
  expect_error<StateError>(
      [&] {
        jvp([](const std::vector<Array>& v) { return v[0]; }, std::tuple(std::vector<Array>{ones({2})}),
            std::tuple(std::vector<Array>{}));
      },
      "jvp", "a list of 1 items", "a list of 0 items");
}

TEST_CASE("vjp takes cotangents back, linearize tangents forth") {
  const auto f = [](const Array& x, const Array& y) { return x * y + sin(x); };
  const Array x = array({0.5, 1.0});
  const Array y = array({2.0, 3.0});
  const auto [value, back] = vjp(f, x, y);
  check_close(value, {2}, {1 + std::sin(0.5), 3 + std::sin(1.0)}, 1e-12);
  for (const double c : {1.0, 2.0}) {
    const auto [dx, dy] = back(array({c, -c}));
    check_close(dx, {2}, {c * (2 + std::cos(0.5)), -c * (3 + std::cos(1.0))}, 1e-12);
    check_close(dy, {2}, {c * 0.5, -c}, 1e-12);
  }
  const auto [same, forth] = linearize(f, x, y);
  check_same_bits(same, value);
  check_close(forth(array({1.0, 0.0}), array({0.0, 1.0})), {2}, {2 + std::cos(0.5), 1}, 1e-12);
  check_close(forth(array({0.0, 0.0}), array({1.0, 0.0})), {2}, {0.5, 0}, 1e-12);
  const auto integer = vjp([](const Array& v, const Array& i) { return take_rows(v, i); }, x, array({1, 1}));
  const auto [dv, di] = integer.second(array({1.0, 2.0}));
  check_close(dv, {2}, {0, 3});
  CHECK(di.dtype() == int32);
  check_close(di, {2}, {0, 0});
  expect_error<ShapeError>([&] { back(array({1.0})); }, "vjp", "cotangent", "f64[1]", "f64[2]");
}

TEST_CASE("vjp inside a compiled function") {
  const auto f = jit([](const Array& x) {
    const auto [y, back] = vjp([](const Array& v) { return v * v * v; }, x);
    return std::get<0>(back(y));
  });
  check_close(f(array(2.0)), {}, {8 * 12});
}

TEST_CASE("vmap equals a loop") {
  const auto f = [](const Array& x, const Line& p) { return std::pair(matmul(p.w, x) + p.b, sum(x)); };
  const Line p{reshape(convert(arange(6), float32), {3, 2}), array({1.f, 2.f, 3.f})};
  const Array xs = reshape(convert(arange(8), float32), {4, 2});
  const auto [ys, sums] = vmap(f, {.in_axes = {0, std::nullopt}})(xs, p);
  CHECK(ys.shape() == Shape{4, 3});
  for (std::int64_t i = 0; i < 4; ++i) {
    const Array x = reshape(slice_in_dim(xs, i, i + 1, 0), {2});
    check_same_bits(reshape(slice_in_dim(ys, i, i + 1, 0), {3}), f(x, p).first);
    check_same_bits(reshape(slice_in_dim(sums, i, i + 1, 0), {}), f(x, p).second);
  }
  const auto other_axes = vmap([](const Array& x) { return x * 2; }, {.in_axes = {1}, .out_axis = -1});
  check_same_bits(other_axes(xs), xs * 2);
  const Array constant = vmap([](const Array&) { return ones({2}); })(xs);
  check_close(constant, {4, 2}, std::vector<double>(8, 1));
}

TEST_CASE("per-example gradients equal a loop of gradients") {
  const auto example_loss = [](const Array& w, const Array& x) { return sum(square(tanh(matmul(w, x)))); };
  const Array w = reshape(convert(arange(6), float64) * 0.1, {2, 3});
  const Array xs = reshape(sin(convert(arange(12), float64)), {4, 3});
  const auto per_example = vmap(grad(example_loss), {.in_axes = {std::nullopt, 0}});
  const Array gradients = per_example(w, xs);
  const Array compiled = jit(per_example)(w, xs);
  CHECK(gradients.shape() == Shape{4, 2, 3});
  for (std::int64_t i = 0; i < 4; ++i) {
    const Array expected = grad(example_loss)(w, reshape(slice_in_dim(xs, i, i + 1, 0), {3}));
    check_close(reshape(slice_in_dim(gradients, i, i + 1, 0), {2, 3}), {2, 3}, tests::values(expected), 1e-14);
    check_close(reshape(slice_in_dim(compiled, i, i + 1, 0), {2, 3}), {2, 3}, tests::values(expected), 1e-14);
  }
}

TEST_CASE("vmap refuses what it cannot map") {
  const auto both = [](const Array& a, const Array& b) { return a + b; };
  expect_error<ShapeError>([&] { vmap(both)(ones({3}), ones({4})); }, "vmap", "argument 0", "3", "argument 1", "4");
  expect_error<ShapeError>([&] { vmap(both)(ones({3}), array(1.f)); }, "vmap", "argument 1", "scalar");
  expect_error<ShapeError>([&] { vmap(both, {.in_axes = {2, 0}})(ones({3}), ones({3})); }, "vmap");
  expect_error<ValueError>([&] { vmap(both, {.in_axes = {0}})(ones({3}), ones({3})); }, "1 entries", "2 arguments");
  expect_error<ValueError>(
      [&] {
        vmap(both, {.in_axes = {std::nullopt, std::nullopt}})(ones({3}), ones({3}));
      },
      "no argument is mapped");
}
