#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// What will make a NaN of a gradient, found where the function is traced.
using namespace lockstep;
using tests::check_close;
using tests::expect_error;

namespace {

using Texts = std::vector<std::string>;

template <class F>
Texts lint_of(const F& f) {
  return trace_function(f, ones({4})).lint();
}

bool lint_holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Never negative, which is decided farther away than lint looks at once.
Array far_square(const Array& x) {
  Array s = square(x);
  for (int i = 0; i < 80; ++i) s = s + s;
  return s;
}

Array guarded_log(const Array& x) { return sum(where(x > 0, log(where(x > 0, x, 1)), 0)); }
Array naive_log(const Array& x) { return sum(where(x > 0, log(x), 0)); }

}  // namespace

TEST_CASE("log in a branch that is not taken is found where it is traced; the double where is silent and gives 0") {
  const Array zero = zeros({4});
  const Texts texts = lint_of(naive_log);
  REQUIRE(texts.size() == 1);
  CHECK(lint_holds(texts[0], "select: log of 0 has no finite value or derivative"));
  CHECK(lint_holds(texts[0], "where(c, log(where(c, x, 1)), y) instead of where(c, log(x), y)"));
  CHECK(std::isnan(grad(naive_log)(zero).to_vector<float>()[0]));
  expect_error<NonFiniteError>(
      [&] { jit([](const Array& x) { return grad(naive_log)(x); }, {.debug = {.nans = true}})(zero); }, "backward",
      "where(c, log(where(c, x, 1)), y)");

  CHECK(lint_of(guarded_log).empty());
  check_close(grad(guarded_log)(zero), {4}, {0, 0, 0, 0});
  check_close(grad(guarded_log)(full({4}, 2)), {4}, {0.5, 0.5, 0.5, 0.5});
}

TEST_CASE("lint knows the op, its operands and the layer") {
  struct Row {
    const char* expected;
    std::function<Array(const Array&)> function;
  };
  const std::vector<Row> rows = {
      {"sqrt of -", [](const Array& x) { return where(x > 0, sqrt(x) * 3, 0); }},
      {"div of ", [](const Array& x) { return where(not_equal(x, 0), sin(x) / x, 1); }},
      {"log of -", [](const Array& x) { return where(x > 0, x * log(x), 0); }},
      {"rsqrt of 0", [](const Array& x) { return where(sum(x) > 0, x * rsqrt(sum(square(x))), x); }},
      {"sqrt of ", [](const Array& x) { return where(x >= 3, sqrt(x - 3), 0); }},
      {"rsqrt of 0", [](const Array& x) { return where(x > 0, rsqrt(far_square(x)), 0); }},
      {"in layer 'norm'",
       [](const Array& x) {
         const NamedScope layer("norm");
         return where(x > 0, log(x), 0);
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.expected);
    const Texts texts = lint_of(row.function);
    REQUIRE(texts.size() == 1);
    CHECK_MESSAGE(lint_holds(texts[0], row.expected), texts[0]);
  }
}

TEST_CASE("lint is silent where gradients are finite") {
  struct Row {
    const char* what;
    std::function<Array(const Array&)> function;
  };
  const std::vector<Row> rows = {
      {"no branch", [](const Array& x) { return sum(log(x)); }},
      {"a constant", [](const Array& x) { return where(x > 0, x * log(full({4}, 2)), 0); }},
      {"a norm with epsilon", [](const Array& x) { return where(x > 0, x * rsqrt(mean(square(x)) + 1e-5), 0); }},
      {"clipped", [](const Array& x) { return where(x > 1e-6, log(maximum(x, 1e-6)), -14); }},
      {"taken everywhere", [](const Array& x) { return where(exp(x) > 0, log(exp(x)), 0); }},
      {"integers", [](const Array& x) { return where(x > 0, convert(convert(x, int32) / 2, float32), 0); }},
      {"relu and gelu", [](const Array& x) { return relu(x) + gelu(x) + elu(x) + softplus(x) + log_softmax(x); }},
      {"no derivative", [](const Array& x) { return where(x > 0, log(stop_gradient(x)), 0); }},
      {"far from where its sign is decided", [](const Array& x) { return where(x > 0, rsqrt(far_square(x) + 1), 0); }},
      {"a guard beside a long way",
       [](const Array& x) {
         const Array count = sum(convert(x > 0, float32));
         return where(count == 0, 0, sum(far_square(x)) / where(count == 0, 1, count));
       }},
      {"the sign of what has a rule of its own",
       [](const Array& x) {
         const auto rule = [](const std::tuple<Array>& at, const std::tuple<Array>& along) {
           return std::pair(square(std::get<0>(at)), 2 * std::get<0>(at) * std::get<0>(along));
         };
         const auto squared = custom_jvp([](const Array& v) { return square(v); }, rule);
         return where(x > 0, rsqrt(squared(x) + 1e-3), 0);
       }},
      {"none of what comes after",
       [](const Array& x) {
         const Array held = matmul(stop_gradient(x), ones({4, 4}));
         return where(held > 0, log(held), 0);
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Texts texts = lint_of(row.function);
    CHECK_MESSAGE(texts.empty(), (texts.empty() ? "" : texts[0]));
  }
}

TEST_CASE("lint looks into maps and loops, and names each place once") {
  const Mesh mesh({{"batch", 2}}, devices("cpu:0"));
  const auto mapped = [&](const Array& x) {
    return pmap([](const Array& part) { return where(part > 0, log(part), 0); },
                {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}})(x);
  };
  CHECK(lint_of(mapped).size() == 1);
  const auto scanned = [](const Array& x) {
    const auto step = [](const Array& c, const Array& a) { return std::pair(c + where(a > 0, sqrt(a), 0), a); };
    return scan(step, array(0.f), x).first;
  };
  CHECK(lint_of(scanned).size() == 1);
  const auto nested = [](const Array& x) { return where(x < 1, where(x > 0, log(x), 0) * 2, 0); };
  CHECK(lint_of(nested).size() == 1);
}
