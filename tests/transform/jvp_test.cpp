#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/values.h"
#include "engine/transform/transforms.h"
#include "tests/support/derivative_checks.h"

namespace lockstep::tests {

namespace {

const ArrayType vector3{DType::float64, Shape{3}, {}};
const ArrayType integers{DType::int32, Shape{3}, {}};

/// y = op(x) for an op whose derivative says what is wanted.
ir::FunctionPtr function_of(const ir::Primitive& primitive, int operands = 1) {
  return make_function(std::vector<ArrayType>(static_cast<std::size_t>(operands), vector3),
                       [&](ir::Builder&, std::span<const ir::Value> x) { return ops::apply(primitive, x); });
}

ir::Primitive primitive_with(ir::Derivative derivative) {
  ir::Primitive primitive;
  primitive.name = "strange";
  primitive.infer = [](const ir::InferContext& context) { return std::vector<ArrayType>{context.inputs[0]}; };
  primitive.derivative = std::move(derivative);
  return primitive;
}

}  // namespace

TEST_CASE("an inactive input has no tangent and costs nothing") {
  const auto f = make_function({vector3, vector3}, [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{ops::mul(ops::sin(x[0]), x[1])};
  });
  const auto derivative = transform::jvp(f, {false, true});
  CHECK(derivative->inputs().size() == 3);
  CHECK(count(*derivative, "cos") == 0);
  CHECK(count(*derivative, "mul") == 2);
  CHECK(evaluate(derivative, {{0, 1, 2}, {1, 1, 1}, {5, 6, 7}})[1] ==
        Elements{0, std::sin(1.0) * 6, std::sin(2.0) * 7});
}

TEST_CASE("integer and bool results have no tangent, and pass none on") {
  const auto f = make_function({vector3}, [](ir::Builder&, std::span<const ir::Value> x) {
    const ir::Value rounded = ops::convert(x[0], DType::int32);
    return std::vector{rounded, ops::greater(x[0], ops::zeros(x[0].builder(), x[0].type())),
                       ops::convert(rounded, DType::float64)};
  });
  const auto derivative = transform::jvp(f, {true});
  REQUIRE(derivative->outputs().size() == 4);
  CHECK(evaluate(derivative, {{1.5, -2.5, 3.5}, {1, 1, 1}})[3] == Elements{0, 0, 0});
}

TEST_CASE("a result that no active input reaches has a tangent of zeros") {
  const auto f = make_function({vector3, vector3}, [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{x[0], x[1]};
  });
  const auto results = evaluate(transform::jvp(f, {true, false}), {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}});
  CHECK(results == std::vector<Elements>{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {0, 0, 0}});
}

TEST_CASE("a linear op joins absent tangents as zeros") {
  const auto f = make_function({vector3, vector3}, [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{ops::concatenate(std::vector{x[0], x[1]}, 0)};
  });
  CHECK(evaluate(transform::jvp(f, {false, true}), {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})[1] == Elements{0, 0, 0, 7, 8, 9});
}

TEST_CASE("stop_gradient stops tangents") {
  const auto f = make_function({vector3}, [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{ops::mul(x[0], ops::stop_gradient(x[0]))};
  });
  CHECK(evaluate(transform::jvp(f, {true}), {{1, 2, 3}, {1, 1, 1}})[1] == Elements{1, 2, 3});
}

TEST_CASE("equations of a derivative keep the layer they came from") {
  ir::Builder builder;
  const ir::Var x = builder.input(vector3);
  builder.set_provenance({std::make_shared<const std::string>("block/dense"), false});
  const ir::Var y = builder.apply(ops::primitives::sin(), {x})[0];
  const auto gradient = transform::vjp(builder.finish({y}), {true});
  bool backward = false;
  for (const ir::Equation& equation : gradient->equations()) {
    REQUIRE(equation.provenance.scope);
    CHECK(*equation.provenance.scope == "block/dense");
    backward = backward || equation.provenance.backward;
    if (equation.primitive->name == "sin") CHECK(!equation.provenance.backward);
  }
  CHECK(backward);
}

TEST_CASE("what jvp refuses") {
  const auto f =
      make_function({vector3, integers}, [](ir::Builder&, std::span<const ir::Value> x) { return std::vector{x[0]}; });
  CHECK_THROWS_WITH_AS(transform::jvp(f, {true, true}),
                       "jvp: input 1 is i32[3], but only float and complex inputs have a derivative; leave it out of "
                       "the differentiated arguments or convert it to float32",
                       DtypeError);
  CHECK_THROWS_WITH_AS(transform::jvp(f, {true}), "jvp: 1 activity flags for 2 inputs; give one per input", ValueError);

  ir::Derivative no_rule;
  no_rule.kind = ir::Derivative::Kind::jvp;
  const ir::Primitive strange = primitive_with(no_rule);
  CHECK_THROWS_WITH_AS(transform::jvp(function_of(strange), {true}),
                       "jvp: strange has no derivative rule; put stop_gradient on its operands if none is wanted",
                       TraceError);

  ir::Derivative first_only;
  first_only.kind = ir::Derivative::Kind::linear;
  first_only.linear_in = {0};
  const ir::Primitive partial = primitive_with(first_only);
  CHECK_THROWS_WITH_AS(transform::jvp(function_of(partial, 2), {true, true}),
                       "jvp: strange has no derivative with respect to operand 1; put stop_gradient on it if none is "
                       "wanted",
                       TraceError);
}

TEST_CASE("a derivative rule of wrong form is named") {
  ir::Derivative wrong;
  wrong.kind = ir::Derivative::Kind::jvp;
  wrong.jvp = [](const ir::JvpContext& context) -> std::vector<ir::Tangent> {
    return {ops::reduce_sum(*context.tangents[0], {0})};
  };
  const ir::Primitive misshapen = primitive_with(wrong);
  CHECK_THROWS_WITH_AS(transform::jvp(function_of(misshapen), {true}),
                       "strange: its derivative rule gave f64[] where f64[3] is needed", IrError);
  wrong.jvp = [](const ir::JvpContext&) { return std::vector<ir::Tangent>{}; };
  const ir::Primitive silent = primitive_with(wrong);
  CHECK_THROWS_WITH_AS(transform::jvp(function_of(silent), {true}),
                       "jvp: the rule of strange gave 0 tangents for 1 results", IrError);
}

}  // namespace lockstep::tests
