#include "engine/trace/trace.h"

#include <thread>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/trace/array_state.h"
#include "tests/support/evaluate.h"
#include "tests/support/expect_error.h"

namespace lockstep::tests {

namespace {

using tracing::Traced;
using Arrays = std::vector<Array>;

const ArrayType vector3{DType::float64, Shape{3}, {}};

Array concrete(const Elements& elements) {
  const ArrayType type{DType::float64, Shape{static_cast<std::int64_t>(elements.size())}, {}};
  return make_array(type, to_host(type, elements).buffer);
}
Array add(const Array& a, const Array& b) { return tracing::bind(ops::primitives::add(), Arrays{a, b}, {})[0]; }
Array neg(const Array& a) { return tracing::bind(ops::primitives::neg(), Arrays{a}, {})[0]; }

std::vector<Elements> run(const Traced& traced, std::vector<Elements> inputs) {
  for (const Array& array : traced.captured) inputs.push_back(array.to_vector<double>());
  return evaluate(traced.function, inputs);
}

std::vector<Array> call_traced(const Traced& traced, Arrays arguments) {
  return tracing::inline_call(*traced.function, joined(std::move(arguments), traced.captured));
}

}  // namespace

TEST_CASE("a body becomes a function") {
  const ArrayType types[] = {vector3, vector3};
  const Traced traced = tracing::trace(
      [](std::span<const Array> x) {
        return Arrays{add(x[0], neg(x[1])), x[0]};
      },
      types);
  CHECK(traced.captured.empty());
  CHECK(run(traced, {{1, 2, 3}, {1, 1, 1}}) == std::vector<Elements>{{0, 1, 2}, {1, 2, 3}});
  CHECK(!tracing::is_open());
}

TEST_CASE("concrete arrays become inputs, each once, in order of first use") {
  const Array a = concrete({1, 2, 3}), b = concrete({10, 20, 30});
  const Array same = a;
  const Traced traced = tracing::trace(
      [&](std::span<const Array> x) {
        return Arrays{add(add(x[0], b), add(a, same)), a};
      },
      std::array{vector3});
  REQUIRE(traced.captured.size() == 2);
  CHECK(traced.captured[0].state() == a.state());
  CHECK(traced.captured[1].state() == b.state());
  CHECK(traced.function->inputs().size() == 3);
  CHECK(run(traced, {{0, 0, 0}})[0] == Elements{12, 24, 36});
}

TEST_CASE("one buffer seen under two types is two inputs") {
  const Array a = concrete({1, 2, 3});
  const Array row = make_array({DType::float64, Shape{1, 3}, {}}, a.state()->buffer);
  const Traced traced = tracing::trace([&](std::span<const Array>) { return Arrays{neg(a), neg(row)}; }, {});
  CHECK(traced.captured.size() == 2);
}

TEST_CASE("values of outer traces are captured by every trace between") {
  std::size_t captured_in_middle = 0;
  const Traced outer = tracing::trace(
      [&](std::span<const Array> x) {
        const Traced middle = tracing::trace(
            [&](std::span<const Array> y) {
              const Traced inner = tracing::trace(
                  [&](std::span<const Array> z) { return Arrays{add(add(z[0], x[0]), add(x[0], y[0]))}; },
                  std::array{vector3});
              CHECK(inner.captured.size() == 2);
              return call_traced(inner, {neg(y[0])});
            },
            std::array{vector3});
        captured_in_middle = middle.captured.size();
        CHECK(tracing::type_in_trace(middle.captured[0]) == vector3);
        return call_traced(middle, {x[1]});
      },
      std::array{vector3, vector3});
  CHECK(captured_in_middle == 1);
  CHECK(outer.captured.empty());
  CHECK(run(outer, {{1, 2, 3}, {5, 5, 5}}) == std::vector<Elements>{{2, 4, 6}});
}

TEST_CASE("axes of a trace are those around it and its own") {
  const auto names = [] {
    std::string text;
    for (const auto& axis : tracing::bound_axes().axes()) text += axis.name + std::to_string(axis.size);
    return text;
  };
  const ir::AxisSizes data({{"data", 2}}), model({{"model", 4}});
  CHECK(names().empty());
  tracing::trace(
      [&](std::span<const Array>) {
        CHECK(names() == "data2");
        tracing::trace(
            [&](std::span<const Array>) {
              CHECK(names() == "data2model4");
              return Arrays{};
            },
            {}, model);
        CHECK_THROWS_WITH_AS(
            tracing::trace([](std::span<const Array>) { return Arrays{}; }, {}, data),
            "trace: axis 'data' is bound already by an enclosing function; give the inner axis another "
            "name",
            MeshError);
        return Arrays{};
      },
      {}, data);
  CHECK(names().empty());
}

TEST_CASE("the captured weight meets varying data by one pvary, right after its input") {
  const Array w = concrete({1, 2, 3});
  const ArrayType local{DType::float64, Shape{3}, AxisSet{"batch"}};
  const Traced traced = tracing::trace(
      [&](std::span<const Array> x) {
        const Array sum = add(x[0], w);
        CHECK(tracing::type_in_trace(sum) == local);
        CHECK(tracing::type_in_trace(w) == vector3);
        return Arrays{add(sum, add(w, x[0]))};
      },
      std::array{local}, ir::AxisSizes({{"batch", 2}}));
  ir::verify(*traced.function);
  CHECK(count(*traced.function, "pvary") == 1);
  CHECK(traced.function->equations()[0].primitive->name == "pvary");
}

TEST_CASE("a leaked value is named by the op that uses it") {
  Array leaked;
  tracing::trace(
      [&](std::span<const Array> x) {
        leaked = neg(x[0]);
        return Arrays{};
      },
      std::array{vector3});
  const std::string text =
      ": leaked traced value of type f64[3], the result of neg: the function it belongs to has finished tracing (or is "
      "traced on another "
      "thread), so it can no longer be used. Return it from that function, as a result or in aux, instead of storing "
      "it "
      "in a variable outside.";
  tracing::trace(
      [&](std::span<const Array> x) {
        CHECK_THROWS_WITH_AS(add(x[0], leaked), ("add: operand 1" + text).c_str(), TraceError);
        CHECK_THROWS_WITH_AS(tracing::type_in_trace(leaked), ("type of a value" + text).c_str(), TraceError);
        return Arrays{};
      },
      std::array{vector3});
  CHECK_THROWS_WITH_AS(tracing::trace(
                           [&](std::span<const Array> x) {
                             return Arrays{x[0], leaked};
                           },
                           std::array{vector3}),
                       ("trace: result 1" + text).c_str(), TraceError);
  CHECK(!tracing::is_open());
}

TEST_CASE("a leaked value is known by its place and layer") {
  Array input, result;
  tracing::trace(
      [&](std::span<const Array> x) {
        const tracing::ScopeName layer("block/dense");
        input = x[1];
        result = add(x[0], x[1]);
        return Arrays{};
      },
      std::array{vector3, vector3});
  const auto use = [](const Array& leaked) {
    tracing::trace([&](std::span<const Array>) { return Arrays{neg(leaked)}; }, {});
  };
  expect_error<TraceError>([&] { use(input); }, "neg: operand 0", "f64[3], input 1 of the traced function:");
  expect_error<TraceError>([&] { use(result); }, "f64[3], the result of add in layer 'block/dense':");
  expect_error<TraceError>([&] { result.to_vector<double>(); }, "to_vector: leaked", "the result of add");
  expect_error<TraceError>([&] { static_cast<void>(static_cast<bool>(result)); }, "condition: leaked");
}

TEST_CASE("a value of another thread's trace is leaked too") {
  tracing::trace(
      [](std::span<const Array> x) {
        std::thread([&] {
          CHECK(!tracing::is_open());
          tracing::trace(
              [&](std::span<const Array>) {
                CHECK_THROWS_AS(neg(x[0]), TraceError);
                return Arrays{};
              },
              {});
        }).join();
        return Arrays{};
      },
      std::array{vector3});
}

TEST_CASE("an exception closes its trace and no other") {
  tracing::trace(
      [](std::span<const Array> x) {
        CHECK_THROWS_WITH_AS(tracing::trace([](std::span<const Array>) -> Arrays { throw DataError("no file"); }, {}),
                             "no file", DataError);
        CHECK(tracing::is_open());
        return Arrays{neg(x[0])};
      },
      std::array{vector3});
  CHECK(!tracing::is_open());
}

TEST_CASE("what bind refuses") {
  CHECK_THROWS_WITH_AS(neg(concrete({1})),
                       "neg: no trace is open on this thread; stage ops inside a function given to trace", TraceError);
  tracing::trace(
      [](std::span<const Array>) {
        CHECK_THROWS_WITH_AS(neg(Array()), "neg: operand 0: the array holds nothing; assign a value to it first",
                             ValueError);
        return Arrays{};
      },
      {});
}

TEST_CASE("equations carry the layer they were staged in") {
  const Traced traced = tracing::trace(
      [](std::span<const Array> x) {
        const tracing::ScopeName block("block");
        const Array a = neg(x[0]);
        Array b;
        {
          const tracing::ScopeName dense("block/dense");
          const Traced inner =
              tracing::trace([&](std::span<const Array> y) { return Arrays{neg(y[0])}; }, std::array{vector3});
          CHECK(*inner.function->equations()[0].provenance.scope == "block/dense");
          b = call_traced(inner, {a})[0];
        }
        return Arrays{neg(b)};
      },
      std::array{vector3});
  std::vector<std::string> scopes;
  for (const ir::Equation& equation : traced.function->equations()) {
    scopes.push_back(equation.provenance.scope ? *equation.provenance.scope : "");
  }
  CHECK(scopes == std::vector<std::string>{"block", "block/dense", "block"});
  CHECK_NOTHROW(tracing::ScopeName("outside of any trace"));
}

}  // namespace lockstep::tests
