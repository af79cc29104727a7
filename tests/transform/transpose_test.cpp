#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/transforms.h"
#include "tests/support/derivative_checks.h"
#include "tests/transform/bodies.h"

namespace lockstep::tests {

TEST_CASE("a linear function is transposed with its residuals in place") {
  const auto linear = make_function({vector2, vector2}, [](ir::Builder&, Inputs x) {
    return Results{ops::mul(ops::sin(x[0]), x[1]), ops::div(x[1], x[0])};
  });
  const auto back = transform::transpose(linear, 1);
  CHECK(back->inputs().size() == 3);
  const auto results = evaluate(back, {{1, 2}, {10, 20}, {1, 1}});
  CHECK(distance(results, {{1 + std::sin(1.0) * 10, 0.5 + std::sin(2.0) * 20}}) < 1e-15);
}

TEST_CASE("an input that is never reached has a cotangent of zeros") {
  const auto linear = make_function({vector2, vector2}, [](ir::Builder&, Inputs x) { return Results{x[0]}; });
  CHECK(evaluate(transform::transpose(linear, 0), {{1, 2}}) == std::vector<Elements>{{1, 2}, {0, 0}});
}

TEST_CASE("a value used several times sums its cotangents, last use first") {
  const auto linear = make_function({vector2}, [](ir::Builder&, Inputs x) {
    return Results{ops::neg(x[0]), ops::add(x[0], x[0]), x[0], x[0]};
  });
  const auto back = transform::transpose(linear, 0);
  CHECK(evaluate(back, {{1, 1}, {2, 2}, {1e16, 4}, {-1e16, 8}}) == std::vector<Elements>{{3, 15}});
}

TEST_CASE("results that do not depend on the inputs give nothing back") {
  const auto linear = make_function({vector2, vector2}, [](ir::Builder&, Inputs x) {
    return Results{ops::mul(x[0], x[0]), ops::mul(x[0], x[1])};
  });
  CHECK(evaluate(transform::transpose(linear, 1), {{3, 4}, {100, 100}, {1, 1}}) == std::vector<Elements>{{3, 4}});
}

TEST_CASE("zeros may stand in linear places") {
  const auto linear = make_function({vector2}, [](ir::Builder& builder, Inputs x) {
    const ir::Value zero = ops::broadcast_in_dim(ops::full(builder, DType::float64, Shape{}, 0), Shape{2}, {});
    return Results{ops::add(ops::concatenate(std::vector{x[0], zero}, 0), ops::pad(x[0], 0, {2}, {0}, {0}))};
  });
  CHECK(evaluate(transform::transpose(linear, 0), {{1, 2, 3, 4}}) == std::vector<Elements>{{4, 6}});
}

TEST_CASE("what transpose refuses") {
  struct Refused {
    const char* text;
    std::function<Results(Inputs)> body;
  };
  const std::vector<Refused> table{
      {"transpose: sin is not linear in operand 0, which depends on the inputs to transpose; only linear functions can "
       "be transposed",
       [](Inputs x) { return Results{ops::sin(x[0])}; }},
      {"transpose: mul is not linear: 2 of its operands depend on the inputs to transpose; only linear functions can "
       "be "
       "transposed",
       [](Inputs x) { return Results{ops::mul(x[0], x[0])}; }},
      {"transpose: div is not linear in operand 1, which depends on the inputs to transpose; only linear functions can "
       "be transposed",
       [](Inputs x) { return Results{ops::div(ops::full_like(x[0], 1), x[0])}; }},
      {"transpose: add joins operand 1, which does not depend on the inputs to transpose and is not a constant zero; "
       "the function is affine, and only linear functions can be transposed",
       [](Inputs x) { return Results{ops::add(x[0], ops::full_like(x[0], 1))}; }},
  };
  for (const Refused& refused : table) {
    const auto f = make_function({vector2}, [&](ir::Builder&, Inputs x) { return refused.body(x); });
    CHECK_THROWS_WITH_AS(transform::transpose(f, 0), refused.text, TraceError);
  }
  const auto f = make_function({vector2}, [](ir::Builder&, Inputs x) { return Results{x[0]}; });
  CHECK_THROWS_WITH_AS(transform::transpose(f, 2), "transpose: 2 residuals for a function of 1 inputs", ValueError);
}

TEST_CASE("an op without a transpose is named with its layer") {
  ir::Primitive one_way;
  one_way.name = "one_way";
  one_way.infer = [](const ir::InferContext& context) { return std::vector<ArrayType>{context.inputs[0]}; };
  one_way.derivative.kind = ir::Derivative::Kind::linear;
  ir::Builder builder;
  const ir::Var x = builder.input(vector2);
  builder.set_provenance({std::make_shared<const std::string>("encoder/0"), false});
  const auto f = builder.finish({builder.apply(one_way, {x})[0]});
  CHECK_THROWS_WITH_AS(
      transform::vjp(f, {true}),
      "transpose: one_way (in layer 'encoder/0') has no transpose, so reverse mode cannot pass it; put "
      "stop_gradient on its operands or use jvp",
      TraceError);
}

TEST_CASE("a transpose rule of wrong form is named") {
  ir::Primitive strange;
  strange.name = "strange";
  strange.infer = [](const ir::InferContext& context) { return std::vector<ArrayType>{context.inputs[0]}; };
  strange.derivative.kind = ir::Derivative::Kind::linear;
  const auto f = make_function({vector2}, [&](ir::Builder&, Inputs x) { return ops::apply(strange, x); });
  strange.derivative.transpose = [](const ir::TransposeContext&) { return std::vector<ir::Tangent>{}; };
  CHECK_THROWS_WITH_AS(transform::transpose(f, 0), "transpose: the rule of strange gave 0 cotangents for 1 operands",
                       IrError);
  strange.derivative.transpose = [](const ir::TransposeContext& context) -> std::vector<ir::Tangent> {
    return {ops::convert(*context.cotangents[0], DType::float32)};
  };
  CHECK_THROWS_WITH_AS(transform::transpose(f, 0), "strange: its derivative rule gave f32[2] where f64[2] is needed",
                       IrError);
}

}  // namespace lockstep::tests
