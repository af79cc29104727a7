#include <utility>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/expect_error.h"

// What std::move took the value of is an error wherever it is used, never a crash or a value.
using namespace lockstep;
using tests::expect_error;

TEST_CASE("a compiled function that was moved away says so, inside of a trace too; what it was moved to goes on") {
  auto doubled = jit([](const Array& x) { return x + x; });
  CHECK(doubled(array(2.0F)).item<float>() == 4);
  const auto moved = std::move(doubled);
  CHECK(moved(array(3.0F)).item<float>() == 6);
  CHECK(moved.traces() == 1);
  const auto& left = doubled;
  expect_error<ValueError>([&] { left(array(2.0F)); }, "jit: it holds nothing", "std::move");
  expect_error<ValueError>([&] { left.traces(); }, "jit: it holds nothing");
  expect_error<ValueError>([&] { left.retrace_reasons(); }, "jit: it holds nothing");
  expect_error<ValueError>([&] { jit([&](const Array& x) { return left(x); })(array(1.0F)); }, "jit: it holds nothing");
}

TEST_CASE("a traced function that was moved away says so in every use") {
  Function f = trace_function([](const Array& x) { return sin(x); }, array(1.0F));
  const Function moved = std::move(f);
  CHECK(moved.count("sin") == 1);
  const Function& left = f;
  const auto text = "function: it holds nothing";
  expect_error<ValueError>([&] { left.to_string(); }, text);
  expect_error<ValueError>([&] { left.hash(); }, text);
  expect_error<ValueError>([&] { left.input_types(); }, text);
  expect_error<ValueError>([&] { left.output_types(); }, text);
  expect_error<ValueError>([&] { left.count("sin"); }, text);
  expect_error<ValueError>([&] { left({array(1.0F)}); }, text);
  expect_error<ValueError>([&] { left.eval({array(1.0F)}); }, text);
  expect_error<ValueError>([&] { left.plan(); }, text);
  expect_error<ValueError>([&] { left.lint(); }, text);
  expect_error<ValueError>([&] { random::check_key_reuse(left); }, text);
}

TEST_CASE("a static value of a tree that was moved away is no value") {
  Tree tree(StaticValue(0.5));
  const Tree moved = std::move(tree);
  CHECK(std::get<double>(moved.fixed()) == 0.5);
  const Tree& left = tree;
  expect_error<ValueError>([&] { left.fixed(); }, "tree: it holds nothing");
  expect_error<ValueError>([&] { from_tree<double>(left); }, "tree: it holds nothing");
}
