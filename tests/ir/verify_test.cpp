#include "engine/ir/verify.h"

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/ir/mapped.h"
#include "tests/support/expect_error.h"

namespace lockstep::ir {

using ops::operator+;
using ops::operator-;
using ops::operator*;
using tests::contains;
using tests::error_text;

namespace {

const ArrayType two{float32, {2}, {}};
const ArrayType three{float32, {3}, {}};
const ArrayType varying{float32, {2}, {"batch"}};

Equation equation(const Primitive& primitive, std::vector<Var> inputs, std::vector<Var> outputs, Attrs attrs = {}) {
  return {&primitive, std::move(attrs), std::move(inputs), std::move(outputs), {}};
}

struct Broken {
  std::vector<ArrayType> types;
  std::vector<Var> inputs;
  std::vector<Equation> equations;
  std::vector<Var> outputs;
  std::string message;
  AxisSizes axes = {};

  Function function() const { return {axes, types, inputs, equations, outputs}; }
};

constexpr Var v0{0}, v1{1}, v2{2}, v9{9};

std::vector<Broken> broken_functions() {
  const Primitive& add = ops::primitives::add();
  const Primitive& neg = ops::primitives::neg();
  const AxisSizes mesh({{"batch", 2}});
  const Attrs along_batch{{"axes", std::vector<std::string>{"batch"}}};
  return {
      {{two}, {v0, v0}, {}, {}, "verify: a is defined twice, again by the inputs"},
      {{two}, {v0, v9}, {}, {}, "verify: var 9 of the inputs has no type"},
      {{varying}, {v0}, {}, {}, "verify: a:f32[2]{batch} varies along the unbound axis \"batch\", in the inputs"},
      {{two, two}, {v0}, {}, {v1}, "verify: output ?1 is never defined"},
      {{two}, {v0}, {}, {v9}, "verify: output ?9 is never defined"},
      {{two, two, two},
       {v0},
       {equation(add, {v0, v2}, {v1})},
       {v1},
       "verify: ?2 is used before it is defined\n  in b:f32[2] = add a ?2"},
      {{two, two, two},
       {v0},
       {equation(neg, {v2}, {v1}), equation(neg, {v0}, {v2})},
       {v1},
       "verify: c is used before it is defined\n  in b:f32[2] = neg c"},
      {{two, two},
       {v0},
       {equation(neg, {v1}, {v1})},
       {v1},
       "verify: b is used before it is defined\n  in b:f32[2] = neg b"},
      {{two, two},
       {v0},
       {equation(neg, {v0}, {v1}), equation(neg, {v1}, {v1})},
       {v1},
       "verify: b is defined twice, again by the equation\n  b:f32[2] = neg b"},
      {{two, three},
       {v0},
       {equation(neg, {v0}, {v1})},
       {v1},
       "verify: output 0 is of type f32[2], not as recorded\n  in b:f32[3] = neg a"},
      {{two, {float64, {2}, {}}},
       {v0},
       {equation(neg, {v0}, {v1})},
       {v1},
       "verify: output 0 is of type f32[2], not as recorded\n  in b:f64[2] = neg a"},
      {{two, varying},
       {v0},
       {equation(neg, {v0}, {v1})},
       {v1},
       "verify: output 0 is of type f32[2], not as recorded\n  in b:f32[2]{batch} = neg a",
       mesh},
      {{two, varying, varying},
       {v0, v1},
       {equation(add, {v0, v1}, {v2})},
       {v2},
       "verify: operands a:f32[2] and b:f32[2]{batch} vary along different axes; pvary the one that varies along fewer "
       "first\n  in c:f32[2]{batch} = add a b",
       mesh},
      {{two, two, two},
       {v0},
       {equation(neg, {v0}, {v1, v2})},
       {v1},
       "verify: 2 outputs instead of 1\n  in b:f32[2] c:f32[2] = neg a"},
      {{two},
       {v0},
       {equation(neg, {v0}, {v9})},
       {v0},
       "verify: output 0 is of type f32[2], not as recorded\n  in ?9 = neg a"},
      {{two, two},
       {v0},
       {equation(ops::primitives::psum(), {v0}, {v1}, along_batch)},
       {v1},
       "invariant along batch",
       mesh},
      {{two, three, two}, {v0, v1}, {equation(add, {v0, v1}, {v2})}, {v2}, "\n  in c:f32[2] = add a b"},
  };
}

}  // namespace

TEST_CASE("verify names what is wrong and quotes the equation") {
  for (const Broken& broken : broken_functions()) {
    CAPTURE(broken.message);
    const std::string message = error_text<IrError>([&] { verify(broken.function()); });
    CAPTURE(message);
    CHECK(contains(message, broken.message));
  }
}

TEST_CASE("verify says where an equation came from") {
  Equation bad = equation(ops::primitives::neg(), {v0}, {v1});
  bad.provenance = {std::make_shared<const std::string>("block/dense"), true};
  CHECK(contains(error_text<IrError>([&] {
                   verify(Function({}, {two, three}, {v0}, {bad}, {v1}));
                 }),
                 "in b:f32[3] = neg a\n  from block/dense (backward)"));
}

TEST_CASE("verify looks into sub-functions") {
  const auto body =
      std::make_shared<const Function>(AxisSizes({{"batch", 2}}), std::vector{two, three}, std::vector{v0},
                                       std::vector{equation(ops::primitives::neg(), {v0}, {v1})}, std::vector{v1});
  const Attrs attrs{{"body", std::static_pointer_cast<const AttrObject>(body)}};
  const std::string message = error_text<IrError>([&] {
    verify(Function({}, {two, two}, {v0}, {equation(ops::primitives::pmap(), {v0}, {v1}, attrs)}, {v1}));
  });
  CHECK(contains(message, "not as recorded\n  in b:f32[3] = neg a\n  which stands in body of pmap"));
}

TEST_CASE("what the builder makes is right") {
  const FunctionPtr body = tests::make_function(
      {varying, two}, [](Builder&, std::span<const Value> x) { return std::vector{ops::psum(x[0] * x[1], {"batch"})}; },
      AxisSizes({{"batch", 2}}));
  CHECK_NOTHROW(verify(*body));
  CHECK_NOTHROW(verify(*tests::mapped(body, {{float32, {4}, {}}, two}, {{"batch"}, {""}}, {{""}})));
}

}  // namespace lockstep::ir
