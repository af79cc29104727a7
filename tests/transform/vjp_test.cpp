#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/transforms.h"
#include "tests/support/derivative_checks.h"
#include "tests/transform/bodies.h"

namespace lockstep::tests {

TEST_CASE("value_and_grad returns the value, what else there is, and the gradients, in order") {
  const auto f = make_function({vector2, vector2}, [](ir::Builder&, Inputs x) {
    const ir::Value product = ops::mul(x[0], x[1]);
    return Results{ops::reduce_sum(product, {0}), ops::sin(product), ops::convert(product, DType::int32)};
  });
  const auto gradient = transform::value_and_grad(f, {true, true});
  CHECK(evaluate(gradient, {{1, 2}, {3, 4}}) ==
        std::vector<Elements>{{11}, {std::sin(3.0), std::sin(8.0)}, {3, 8}, {3, 4}, {1, 2}});
  CHECK(count(*gradient, "sin") == 1);
  CHECK(count(*gradient, "cos") == 0);
  CHECK(count(*transform::value_and_grad(f, {true, false}), "mul") == 2);
}

TEST_CASE("the gradient of a constant is zero") {
  const auto f = make_function(
      {vector2}, [](ir::Builder& builder, Inputs) { return Results{ops::full(builder, DType::float64, Shape{}, 7)}; });
  CHECK(evaluate(transform::value_and_grad(f, {true}), {{1, 2}}) == std::vector<Elements>{{7}, {0, 0}});
}

TEST_CASE("a branch that select did not take sends back zero, not NaN") {
  const auto f = make_function({scalar}, [](ir::Builder& builder, Inputs x) {
    const ir::Value zero = ops::zeros(builder, x[0].type());
    const ir::Value safe = ops::select(ops::greater(x[0], zero), x[0], ops::full_like(x[0], 1));
    return Results{ops::select(ops::greater(x[0], zero), ops::log(safe), zero)};
  });
  CHECK(evaluate(transform::value_and_grad(f, {true}), {{-1}}) == std::vector<Elements>{{0}, {0}});
}

TEST_CASE("gradients of gradients of x^3") {
  const auto f =
      make_function({scalar}, [](ir::Builder&, Inputs x) { return Results{ops::mul(x[0], ops::mul(x[0], x[0]))}; });
  const auto pick_gradient = [](const ir::FunctionPtr& g) {
    return make_function({scalar}, [&](ir::Builder& builder, Inputs x) {
      const ir::Var argument = x[0].var();
      return Results{ir::Value(builder, builder.inline_function(*g, std::span(&argument, 1)).back())};
    });
  };
  ir::FunctionPtr g = f;
  for (const double expected : {12.0, 12.0, 6.0, 0.0}) {
    g = pick_gradient(transform::value_and_grad(g, {true}));
    CHECK(evaluate(g, {{2}}) == std::vector<Elements>{{expected}});
  }
}

TEST_CASE("a vjp has one cotangent per float result") {
  const auto f = make_function({vector2}, [](ir::Builder&, Inputs x) {
    return Results{ops::mul(x[0], x[0]), ops::convert(x[0], DType::int32), ops::neg(x[0])};
  });
  const auto back = transform::vjp(f, {true});
  CHECK(back->inputs().size() == 3);
  CHECK(evaluate(back, {{3, 4}, {1, 10}, {1, 1}}) == std::vector<Elements>{{9, 16}, {3, 4}, {-3, -4}, {5, 79}});
}

TEST_CASE("gradients of float32 stay float32") {
  const auto f = make_function({{DType::float32, Shape{2}, {}}}, [](ir::Builder&, Inputs x) {
    return Results{ops::convert(ops::reduce_sum(ops::sin(ops::convert(x[0], DType::float64)), {0}), DType::float32)};
  });
  const auto gradient = transform::value_and_grad(f, {true});
  CHECK(gradient->output_types()[1] == ArrayType{DType::float32, Shape{2}, {}});
  CHECK(evaluate(gradient, {{0, 0}})[1] == Elements{1, 1});
}

TEST_CASE("what value_and_grad refuses") {
  const auto vector_loss = make_function({vector2}, [](ir::Builder&, Inputs x) { return Results{x[0]}; });
  CHECK_THROWS_WITH_AS(
      transform::value_and_grad(vector_loss, {true}),
      "value_and_grad: the function returned f64[2], a gradient needs a scalar; reduce it with sum or mean, or use vjp",
      ShapeError);
  const auto integer_loss = make_function({vector2}, [](ir::Builder&, Inputs x) {
    return Results{ops::convert(ops::reduce_sum(x[0], {0}), DType::int32)};
  });
  CHECK_THROWS_WITH_AS(transform::value_and_grad(integer_loss, {true}),
                       "value_and_grad: the function returned i32[], a gradient needs a float scalar; convert it",
                       DtypeError);
  const auto nothing = make_function({vector2}, [](ir::Builder&, Inputs) { return Results{}; });
  CHECK_THROWS_WITH_AS(transform::value_and_grad(nothing, {true}),
                       "value_and_grad: the function returned no array; its first result must be a scalar loss",
                       ShapeError);
  const auto labels =
      make_function({scalar, {DType::int32, Shape{4}, {}}}, [](ir::Builder&, Inputs x) { return Results{x[0]}; });
  CHECK_THROWS_WITH_AS(
      transform::value_and_grad(labels, {true, true}),
      "value_and_grad: input 1 is i32[4], but only float and complex inputs have a derivative; leave it out of "
      "the differentiated arguments or convert it to float32",
      DtypeError);
}

}  // namespace lockstep::tests
