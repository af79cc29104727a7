#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/debug.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Effects inside compiled functions.
using namespace lockstep;
using tests::check_close;
using tests::expect_error;

namespace {

using Lines = std::vector<std::string>;

/// What is printed while it lives.
class Printed {
 public:
  Printed() {
    set_debug_sink([this](std::string_view line) { lines_.emplace_back(line); });
  }
  ~Printed() { set_debug_sink({}); }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;

  Lines take() { return std::exchange(lines_, {}); }
  Lines take_sorted() {
    std::sort(lines_.begin(), lines_.end());
    return take();
  }

 private:
  Lines lines_;
};

}  // namespace

TEST_CASE("debug_print writes at once where nothing is traced") {
  Printed printed;
  debug_print("x = {}, y = {} {{}}", array({1.f, 2.5f}), array(3));
  debug_print("no arrays");
  CHECK(printed.take() == Lines{"x = [1.  2.5], y = 3 {}", "no arrays"});
}

TEST_CASE("debug_print is kept, in order, at every call of a compiled function") {
  Printed printed;
  const auto f = jit([](const Array& x) {
    const Array y = x * 2.f;
    debug_print("first {}", y);
    debug_print("same");
    debug_print("same");
    debug_print("last {}", sum(y));
    return x + 1.f;  // needs nothing of what is printed
  });
  const Lines expected = {"first [2. 4.]", "same", "same", "last 6.0"};
  f(array({1.f, 2.f}));
  CHECK(printed.take() == expected);
  f(array({1.f, 2.f}));
  CHECK(printed.take() == expected);
  const Function traced = trace_function(
      [](const Array& x) {
        debug_print("value {}", x);
        return x;
      },
      ones({}));
  traced.eval({array(4.f)});
  CHECK(printed.take() == Lines{"value 4.0"});
}

TEST_CASE("debug_print in vmap writes each element") {
  Printed printed;
  const auto f = [](const Array& x, const Array& y) {
    debug_print("{} and {}", x, y);
    return x + y;
  };
  vmap(f, {.in_axes = {0, std::nullopt}})(array({{1, 2}, {3, 4}}), array({5, 6}));
  CHECK(printed.take() == Lines{"[1 2] and [5 6]", "[3 4] and [5 6]"});
  vmap(vmap([](const Array& x) {
    debug_print("{}", x);
    return x;
  }))(array({{1, 2}, {3, 4}}));
  CHECK(printed.take() == Lines{"1", "2", "3", "4"});
  vmap([](const Array& x) {
    debug_print("once");
    return x;
  })(array({1, 2}));
  CHECK(printed.take() == Lines{"once"});
}

TEST_CASE("debug_print in a derivative writes once") {
  Printed printed;
  const auto loss = [](const Array& x) {
    const Array y = x * x;
    debug_print("y = {}", y);
    return y * 3.f;
  };
  check_close(grad(loss)(array(2.f)), {}, {12});
  CHECK(printed.take() == Lines{"y = 4.0"});
  check_close(jit(grad(loss))(array(2.f)), {}, {12});
  CHECK(printed.take() == Lines{"y = 4.0"});
  check_close(vmap(grad(loss))(array({1.f, 2.f})), {2}, {6, 12});
  CHECK(printed.take() == Lines{"y = 1.0", "y = 4.0"});
}

TEST_CASE("debug_print in a map names the replica") {
  Printed printed;
  for (const int used : {1, 2}) {
    const Mesh mesh({{"batch", 4}}, used == 1 ? devices("cpu:0") : devices("cpu:0-1"));
    const auto f = pmap(
        [](const Array& x) {
          debug_print("own {}", sum(x));
          debug_print("all {}", psum(sum(x), {"batch"}));
          return x;
        },
        {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
    f(arange(8, float32));
    CHECK(printed.take_sorted() == Lines{"[batch=0] all 28.0", "[batch=0] own 1.0", "[batch=1] all 28.0",
                                         "[batch=1] own 5.0", "[batch=2] all 28.0", "[batch=2] own 9.0",
                                         "[batch=3] all 28.0", "[batch=3] own 13.0"});
  }
}

TEST_CASE("debug_print in loops and branches") {
  Printed printed;
  const auto sums = [](const Array& xs) {
    return scan(
               [](const Array& carry, const Array& x) {
                 debug_print("{} + {}", carry, x);
                 return std::pair(carry + x, x * x);
               },
               array(0.f), xs)
        .first;
  };
  const Lines steps = {"0.0 + 1.0", "1.0 + 2.0", "3.0 + 3.0"};
  jit(sums)(array({1.f, 2.f, 3.f}));
  CHECK(printed.take() == steps);
  grad(sums)(array({1.f, 2.f, 3.f}));
  CHECK(printed.take() == steps);
  const auto unused = jit([](const Array& x) {  // nobody reads what the loop computes
    fori_loop(
        0, 2,
        [](const Array& i, const Array& carry) {
          debug_print("i = {}", i);
          return carry;
        },
        x);
    return x;
  });
  unused(array(1.f));
  CHECK(printed.take() == Lines{"i = 0", "i = 1"});
  const auto branches = jit([](const Array& x) {
    return cond(
        x > 0.f,
        [](const Array& y) {
          debug_print("positive {}", y);
          return y;
        },
        [](const Array& y) {
          debug_print("negative {}", y);
          return -y;
        },
        x);
  });
  branches(array(2.f));
  branches(array(-3.f));
  CHECK(printed.take() == Lines{"positive 2.0", "negative -3.0"});
  const auto checked = jit([](const Array& n) {
    return while_loop([&](const Array& i) { return i < n; },
                      [](const Array& i) {
                        error_if(i == 3, "three");
                        return i + 1;
                      },
                      array(0));
  });
  check_close(checked(array(3)), {}, {3});
  expect_error<CheckError>([&] { checked(array(5)); }, "three");
}

TEST_CASE("a format and its arrays") {
  expect_error<ValueError>([] { debug_print("{} {}", array(1)); }, "debug_print", "takes 2 arrays", "1 are given");
  expect_error<ValueError>([] { debug_print("{x}", array(1)); }, "single '{'", "position 0");
  expect_error<ValueError>([] { debug_print("}"); }, "single '}'");
}

TEST_CASE("error_if ends the call that runs into it") {
  const auto f = jit([](const Array& x) {
    error_if(any(x < 0.f), "x must not be negative");
    return sqrt(x);
  });
  check_close(f(array({4.f})), {1}, {2});
  expect_error<CheckError>([&] { f(array({-4.f})); }, "error_if: x must not be negative");
  check_close(f(array({9.f})), {1}, {3});  // the function is as it was
  error_if(array(false), "fine");
  expect_error<CheckError>([] { error_if(array({false, true}), "some hold"); }, "some hold");
  expect_error<DtypeError>([] { error_if(array(1), "m"); }, "error_if", "i32[]", "bool");
}

TEST_CASE("error_if under vmap, grad and in maps") {
  const auto checked = [](const Array& x) {
    error_if(x > 3.f, "too large");
    return x * x;
  };
  check_close(vmap(checked)(array({1.f, 2.f})), {2}, {1, 4});
  expect_error<CheckError>([&] { vmap(checked)(array({1.f, 4.f})); }, "too large");
  check_close(grad(checked)(array(2.f)), {}, {4});
  expect_error<CheckError>([&] { grad(checked)(array(4.f)); }, "too large");
  const Mesh mesh({{"batch", 4}}, devices("cpu:0-1"));
  const auto mapped = pmap(
      [&](const Array& x) {
        error_if(x > 5.f, "too large");
        return x;
      },
      {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
  check_close(mapped(array({1.f, 2.f, 3.f, 4.f})), {4}, {1, 2, 3, 4});
  expect_error<CheckError>([&] { mapped(array({1.f, 2.f, 6.f, 4.f})); }, "too large", "(replica batch=2)");
  // What is the same on all replicas is no one's.
  const auto reduced = pmap(
      [&](const Array& x) {
        const Array total = psum(sum(x), {"batch"});
        error_if(total > 5.f, "too large");
        return total;
      },
      {.mesh = mesh, .in = {sharded("batch")}, .out = {replicated}});
  const std::string text = tests::error_text<CheckError>([&] { reduced(array({1.f, 2.f, 6.f, 4.f})); });
  CHECK_MESSAGE(text.find("replica") == std::string::npos, text);
  CHECK_MESSAGE(text.starts_with("error_if: too large"), text);
}

TEST_CASE("an error stops what would be printed after it") {
  Printed printed;
  const auto f = jit([](const Array& x) {
    debug_print("before");
    error_if(x > 0.f, "positive");
    debug_print("after");
    return x;
  });
  f(array(-1.f));
  CHECK(printed.take() == Lines{"before", "after"});
  expect_error<CheckError>([&] { f(array(1.f)); }, "positive");
  CHECK(printed.take() == Lines{"before"});
}
