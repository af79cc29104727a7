#include <latch>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <xmmintrin.h>

#include <lockstep/backend/backend.h>
#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/named_scope.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "engine/trace/array_state.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;
using tests::expect_error;

namespace jitted {

struct Params {
  Array w, b;
};
LOCKSTEP_TREE(Params, w, b);

const void* memory(const Array& array) { return array.state()->buffer->data(); }

}  // namespace jitted

using jitted::memory;
using jitted::Params;

TEST_CASE("compiled and eager calls give the same bits") {
  const auto data = [](const Shape& shape) {
    return reshape(sin(convert(arange(shape.size()), float32) * 1.7), shape.to_vector());
  };
  const Array a = data({4, 5});
  const Array b = data({5, 3});
  struct Row {
    const char* what;
    std::function<Array(const Array&, const Array&)> function;
  };
  const std::vector<Row> rows = {
      {"chain", [](const Array& x, const Array&) { return exp(x * 0.3) + log1p(abs(x)) / 3; }},
      {"matmul", [](const Array& x, const Array& y) { return tanh(matmul(x, y)); }},
      {"softmax", [](const Array& x, const Array& y) { return log_softmax(matmul(x, y)) * 2; }},
      {"statistics",
       [](const Array& x, const Array&) { return (x - mean(x, Axes{0})) * rsqrt(var(x, Axes{0}) + 1e-5); }},
      {"half", [](const Array& x, const Array& y) { return matmul(convert(x, bfloat16), convert(y, bfloat16)); }},
      {"double", [](const Array& x, const Array&) { return erf(convert(x, float64)) * 0.1; }},
      {"common terms", [](const Array& x, const Array&) { return sqrt(x * x + 1) * sqrt(x * x + 1); }},
      {"choice", [](const Array& x, const Array&) { return where(x > 0.2, x * 1.1, gelu(x)); }},
      {"reduction", [](const Array& x, const Array& y) { return sum(x) + sum(y, Axes{0}); }},
      {"integers", [](const Array& x, const Array&) { return argmax(x, -1) * 3 + 1; }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    check_same_bits(jit(row.function)(a, b), row.function(a, b));
    const Function traced = trace_function(row.function, a, b);
    check_same_bits(traced({a, b})[0], row.function(a, b));
    check_same_bits(traced.eval({a, b})[0], row.function(a, b));
  }
}

TEST_CASE("the caller's float settings do not change a call's bits, nor does a call change them") {
  const auto loop = [](const Array& x) { return sqrt(abs(x * 0.7 + 1e-39)) * x; };
  const auto twice = [&](const Array& x) {
    return scan([&](const Array& c, const Array& y) { return std::pair{loop(c) + y, c}; }, x[0], x).first;
  };
  struct Row {
    const char* what;
    std::function<Array(const Array&)> function;
  };
  const std::vector<Row> rows = {
      {"a loop", loop},
      {"a product", [](const Array& x) { return matmul(x, x); }},
      {"running sums", [](const Array& x) { return cumsum(x * 0.3, 0); }},
      {"a loop and a product", [&](const Array& x) { return matmul(loop(x), x); }},
      {"a scan", twice},
      {"a map on two devices",
       pmap(loop,
            {.mesh = Mesh({{"batch", 2}}, devices("cpu:0-1")), .in = {sharded("batch")}, .out = {sharded("batch")}})},
  };
  const Array scales = concatenate({ones({3, 1}), full({3, 1}, 1e-38F), full({2, 1}, 3e-39F)}, 0);
  const Array x = reshape(sin(convert(arange(64), float32) * 1.7), {8, 8}) * scales;
  const unsigned before = _mm_getcsr();
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto compiled = jit(row.function);
    const Array expected = compiled(x);
    const unsigned set = (before | 0xE040U) & ~0x3FU;  // towards zero, subnormal numbers as zeros
    _mm_setcsr(set);
    const Array given = compiled(x);
    const unsigned after = _mm_getcsr() & ~0x3FU;
    _mm_setcsr(before);
    CHECK(after == set);
    check_same_bits(given, expected);
  }
}

TEST_CASE("a compiled function is traced once per structure, types and static values") {
  int runs = 0;
  const auto f = jit([&runs](const Params& p, const Array& x, int power) {
    ++runs;
    return p.w * x * static_cast<float>(power) + p.b;
  });
  const Params p{ones({3}), zeros({3})};
  for (int i = 0; i < 100; ++i) check_close(f(p, full({3}, i), 2), {3}, {2.0 * i, 2.0 * i, 2.0 * i});
  CHECK(runs == 1);
  CHECK(f.traces() == 1);

  f(p, ones({2, 3}), 2);
  f(Params{ones({3}, float64), zeros({3})}, ones({3}), 2);
  f(p, ones({3}), 3);
  f(Params{ones({4}), zeros({4})}, ones({4}), 3);
  CHECK(runs == 5);
  CHECK(f.traces() == 5);
  CHECK(f.retrace_reasons() == std::vector<std::string>{"first call", "argument 1: f32[3] became f32[2,3]",
                                                        "argument 0/w: f32[3] became f64[3], and 1 more",
                                                        "argument 2: 2 became 3",
                                                        "argument 0/b: f32[3] became f32[4], and 2 more"});
  f(p, ones({2, 3}), 2);
  f(p, ones({3}), 3);
  CHECK(runs == 5);
}

TEST_CASE("a change of structure is explained by path") {
  const auto f = jit([](const Tree& tree) { return tree.at("a").array() + 1; });
  const Tree one = Tree::dict({{"a", Tree(array(1.f))}});
  f(one);
  f(one.with("b", Tree(array(1.f))));
  f(one.with("b", Tree::list({Tree(array(1.f))})));
  f(one.with("b", Tree::list({})));
  CHECK(f.retrace_reasons() == std::vector<std::string>{"first call", "argument 0/b: missing became a leaf",
                                                        "argument 0/b: a leaf became a list of 1 items",
                                                        "argument 0/b: a list of 1 items became a list of 0 items"});
}

TEST_CASE("trees go in and come out of compiled functions") {
  const auto f = jit([](const std::vector<Params>& layers, const std::map<std::string, Array>& named) {
    return std::tuple(layers[1].w + named.at("x"), std::optional<Array>(), std::string("static"), layers);
  });
  const auto [sum, none, text, layers] = f(std::vector<Params>{{ones({2}), zeros({2})}, {full({2}, 3), zeros({2})}},
                                           std::map<std::string, Array>{{"x", ones({2})}});
  check_close(sum, {2}, {4, 4});
  CHECK(!none.has_value());
  CHECK(text == "static");
  check_close(layers[1].w, {2}, {3, 3});
}

TEST_CASE("moved arguments are donated, arrays with other owners are not") {
  const auto update = jit([](const Array& w, const Array& g) { return w - g * 0.5; });
  Array w = full({1000}, 3);
  const Array g = full({1000}, 2);
  const void* before = memory(w);
  w = update(std::move(w), g);
  CHECK(memory(w) == before);
  CHECK(w.to_vector<float>() == std::vector<float>(1000, 2.f));
  CHECK(g.to_vector<float>() == std::vector<float>(1000, 2.f));

  const Array other = w;
  w = update(std::move(w), g);
  CHECK(memory(w) != before);
  CHECK(w.to_vector<float>() == std::vector<float>(1000, 1.f));
  CHECK(other.to_vector<float>() == std::vector<float>(1000, 2.f));
}

TEST_CASE("a moved tree is donated leaf by leaf") {
  const auto update = jit([](const Params& p) { return Params{p.w + 1, p.b * 2}; });
  Params p{full({100}, 1), full({50}, 1)};
  const Array kept = p.b;
  const void* w = memory(p.w);
  p = update(std::move(p));
  CHECK(memory(p.w) == w);
  CHECK(memory(p.b) != memory(kept));
  CHECK(p.b.to_vector<float>() == std::vector<float>(50, 2.f));
  CHECK(kept.to_vector<float>() == std::vector<float>(50, 1.f));
}

TEST_CASE("an array that was given away is an error that says where it went") {
  const auto f = jit([](const Array& x) { return x + x - x; });
  Array x = array({1.f, 2.f});
  const Array y = f(std::move(x));
  check_close(y, {2}, {1, 2});
  const char* origin = "std::move made it argument 0 of a compiled function";
  const char* remedy = "leave out std::move there to keep it";
  CHECK(!x.has_value());
  expect_error<ValueError>([&] { x + 1; }, origin, remedy);
  expect_error<ValueError>([&] { x.to_vector<float>(); }, origin, remedy);
  expect_error<ValueError>([&] { f(x); }, "argument 0: ", origin, remedy);
  expect_error<ValueError>([&] { jit([&](const Array& z) { return matmul(z, x); })(y); }, origin);
  expect_error<ValueError>([&] { lax::neg(std::span<const Array>(&x, 1), {}); }, "neg: operand 0: ", origin);

  Params p{ones({2}), ones({2})};
  const auto update = jit([](const Array& step, const Params& q) { return Params{q.w + step, q.b}; });
  const Params next = update(array(1.f), std::move(p));
  check_close(next.w, {2}, {2, 2});
  expect_error<ValueError>([&] { p.b * 2; }, "std::move made it argument 1 of a compiled function");

  x = y;
  check_close(f(x), {2}, {1, 2});
  check_close(x, {2}, {1, 2});
}

TEST_CASE("an array that was moved elsewhere says so, one that never held anything too") {
  Array x = ones({2});
  const Array y = std::move(x);
  const Array z = x;
  CHECK(!z.has_value());
  expect_error<ValueError>([&] { z + y; }, "the array's value was moved away by std::move");
  expect_error<ValueError>([&] { Array() + y; }, "the array holds nothing; assign a value to it first");
  x = y;
  check_close(x + y, {2}, {2, 2});
  Tree tree = Tree::dict({{"w", Tree(ones({2}))}});
  const Tree other = std::move(tree);
  expect_error<StateError>([&] { tree.at("w"); }, "std::move took away");
}

TEST_CASE("an array given away twice in one call is an error; two handles of one array are copied") {
  const auto f = jit([](const Array& a, const Array& b) { return std::pair(a + 1, b * 2); });
  Array x = array({1.f, 2.f});
  expect_error<ValueError>([&] { f(std::move(x), std::move(x)); },
                           "argument 1: ", "std::move made it argument 0 of a compiled function");
  Array one = array({1.f, 2.f});
  Array two = one;
  const Array kept = one;
  const auto [sum, product] = f(std::move(one), std::move(two));
  check_close(sum, {2}, {2, 3});
  check_close(product, {2}, {2, 4});
  check_close(kept, {2}, {1, 2});
}

TEST_CASE("one array given twice is not overwritten") {
  const auto f = jit([](const Array& a, const Array& b) { return a * 2 + b; });
  Array x = full({64}, 1);
  const Array y = f(std::move(x), full({64}, 1));
  CHECK(y.to_vector<float>() == std::vector<float>(64, 3.f));
  const Array z = full({64}, 5);
  CHECK(f(z, z).to_vector<float>() == std::vector<float>(64, 15.f));
  CHECK(z.to_vector<float>() == std::vector<float>(64, 5.f));
}

TEST_CASE("captured arrays are hidden inputs") {
  const auto add_captured = [](const Array& captured) { return [captured](const Array& x) { return x + captured; }; };
  const Array x = array({1.f, 2.f});
  const Function one = trace_function(add_captured(array({10.f, 10.f})), x);
  const Function two = trace_function(add_captured(array({20.f, 20.f})), x);
  CHECK(one.hash() == two.hash());
  CHECK(one.to_string() == two.to_string());
  CHECK(one.to_string().find("10") == std::string::npos);
  CHECK(one.input_types().size() == 1);
  check_close(one({x})[0], {2}, {11, 12});
  check_close(two({x})[0], {2}, {21, 22});
  check_close(two.eval({x})[0], {2}, {21, 22});

  Array captured = array({5.f, 5.f});
  const auto f = jit(add_captured(captured));
  check_close(f(x), {2}, {6, 7});
  captured = Array();
  check_close(f(array({0.f, 0.f})), {2}, {5, 5});
  check_close(f(array({0.f, 1.f})), {2}, {5, 6});
}

TEST_CASE("results that are arguments or captured arrays") {
  const Array captured = array({7.f});
  const auto f = jit([&](const Array& x) { return std::tuple(x, captured, x, ones({1})); });
  const Array x = array({1.f});
  const auto [a, b, c, d] = f(x);
  check_close(a, {1}, {1});
  check_close(b, {1}, {7});
  check_close(c, {1}, {1});
  check_close(d, {1}, {1});
  const auto [e, g, h, i] = f(array({3.f}));
  check_close(e, {1}, {3});
  check_close(h, {1}, {3});
  check_close(captured, {1}, {7});
}

TEST_CASE("a compiled function inside another one is part of it") {
  int runs = 0;
  const auto inner = jit([&runs](const Array& x) { return ++runs, x * 2; });
  const auto outer = jit([&inner](const Array& x) { return inner(x) + inner(x); });
  check_close(outer(array({1.f})), {1}, {4});
  check_close(outer(array({2.f})), {1}, {8});
  CHECK(runs == 2);
  CHECK(inner.traces() == 0);
}

TEST_CASE("a C++ branch on a traced value is an error that says what to write") {
  const auto f = jit([](const Array& x) { return x > 0 ? x : -x; });
  expect_error<TraceError>([&] { f(array(1.f)); }, "bool[]", "where", "cond");
  CHECK(static_cast<bool>(array(1.f) > 0));
  expect_error<ShapeError>([] { static_cast<void>(static_cast<bool>(array({1.f, 2.f}) > 0)); }, "bool[2]");
}

TEST_CASE("reading a traced value is an error") {
  expect_error<TraceError>([] { jit([](const Array& x) { return x + x.item<float>(); })(array(1.f)); }, "f32[]");
}

TEST_CASE("a traced value that outlives its trace is recognised") {
  Array leaked;
  jit([&leaked](const Array& x) {
    const NamedScope layer("head");
    return leaked = x * 2, x;
  })(array({1.f, 2.f}));
  const char* origin = "leaked traced value of type f32[2], the result of mul in layer 'head'";
  expect_error<TraceError>([&] { leaked.to_vector<float>(); }, "to_vector: ", origin);
  expect_error<TraceError>([&] { leaked + 1; }, "add: operand 0: ", origin);
  expect_error<TraceError>(
      [&] {
        jit([&](const Array& x) { return x + leaked; })(array({1.f, 2.f}));
      },
      "add: operand 1: ", origin, "Return it");
  expect_error<TraceError>(
      [&] {
        jit([](const Params& p) { return p.w; })(Params{ones({2}), leaked});
      },
      "argument 0/b: ", origin);
  Array x;
  jit([&x](const Array& a, const Array& b) { return x = b, a + b; })(ones({2}), ones({2}));
  expect_error<TraceError>([&] { x + 1; }, "f32[2], input 1 of the traced function");
}

TEST_CASE("one compiled function serves several threads") {
  const auto f = jit([](const Array& x, const Array& w) { return tanh(matmul(x, w)) + 1; });
  const Array w = reshape(convert(arange(16), float32) * 0.1, {4, 4});
  std::vector<std::thread> threads;
  std::vector<int> same(4, 0);
  for (std::size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Array x = full({static_cast<std::int64_t>(t % 2) + 1, 4}, 0.01 * i);
        same[t] += f(x, w).to_bytes() == (tanh(matmul(x, w)) + 1).to_bytes() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::vector<int>(4, 50));
  CHECK(f.traces() == 2);
}

TEST_CASE("eight threads at once compile functions first, their gradients and maps, for several shapes") {
  const auto loss = [](const Array& w, const Array& x) { return sum(square(tanh(matmul(x, w)))); };
  const Mesh mesh({{"batch", 2}}, devices("cpu:0-1"));
  const auto value = jit(loss);
  const auto slope = jit(grad(loss));
  const auto mapped = pmap([](const Array& x) { return psum(sum(exp(x)), {"batch"}); },
                           {.mesh = mesh, .in = {sharded("batch")}, .out = {replicated}});
  const Array w = reshape(convert(arange(16), float32) * 0.1, {4, 4});
  std::vector<int> same(8, 0);
  std::latch begin(std::ssize(same));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      begin.arrive_and_wait();
      for (std::size_t i = 0; i < 8; ++i) {
        const Array x = full({static_cast<std::int64_t>((t + i) % 4) * 2 + 2, 4}, 0.01 * static_cast<double>(i));
        same[t] += value(w, x).to_bytes() == loss(w, x).to_bytes() ? 1 : 0;
        same[t] += slope(w, x).to_bytes() == grad(loss)(w, x).to_bytes() ? 1 : 0;
        same[t] += mapped(x).to_bytes() == mapped(x + 0).to_bytes() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::vector<int>(8, 24));
  CHECK(value.traces() == 4);
  CHECK(slope.traces() == 4);
}

TEST_CASE("a failed trace leaves nothing open") {
  const auto f = jit([](const Array& x) { return matmul(x, ones({7, 7})); });
  expect_error<ShapeError>([&] { f(ones({2, 2})); }, "matmul");
  check_close(f(ones({1, 7})), {1, 7}, std::vector<double>(7, 7));
  check_close(array(1.f) + 1, {}, {2});
}

TEST_CASE("functions print, parse, count and plan") {
  const Function f = trace_function([](const Array& x, const Array& y) { return sum(tanh(matmul(x, y))); },
                                    ones({2, 3}), ones({3, 4}));
  CHECK(f.count("dot_general") == 1);
  CHECK(f.count("tanh") == 1);
  CHECK(f.count("psum") == 0);
  const Function again = parse_function(f.to_string());
  CHECK(again.to_string() == f.to_string());
  CHECK(again.hash() == f.hash());
  check_same_bits(again({ones({2, 3}), ones({3, 4})})[0], f({ones({2, 3}), ones({3, 4})})[0]);
  CHECK(f.output_types() == std::vector<ArrayType>{{float32, {}, {}}});
  CHECK(f.plan().collectives.empty());
  expect_error<ValueError>([&] { f({ones({2, 3})}); }, "1 arguments given, it takes 2");
  expect_error<ShapeError>([&] { f({ones({2, 3}), ones({3, 5})}); }, "argument 1 is f32[3,5]", "f32[3,4]");
  expect_error<IrError>([] { parse_function("{ lambda a:f32[2]. let b:f32[2] = nothing a in (b,) }"); }, "nothing");
}
