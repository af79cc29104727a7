#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/transforms.h"
#include "tests/support/derivative_checks.h"
#include "tests/transform/bodies.h"

namespace lockstep::tests {

TEST_CASE("a result that carries no batch is repeated") {
  const auto f = make_function({vector2, vector2}, [](ir::Builder&, Inputs x) {
    return Results{ops::neg(x[0]), ops::add(x[0], x[1])};
  });
  CHECK(evaluate(transform::vmap(f, {false, true}, 2), {{1, 2}, {1, 1, 2, 2}}) ==
        std::vector<Elements>{{-1, -2, -1, -2}, {2, 3, 3, 4}});
}

TEST_CASE("what carries no batch is computed once") {
  const auto f =
      make_function({vector2, vector2}, [](ir::Builder&, Inputs x) { return Results{ops::add(ops::sin(x[0]), x[1])}; });
  const auto mapped = transform::vmap(f, {false, true}, 5);
  for (const ir::Equation& equation : mapped->equations()) {
    if (equation.primitive->name == "sin") CHECK(mapped->type(equation.outputs[0]) == vector2);
  }
}

TEST_CASE("batches of size 0 and 1") {
  const auto f = make_function({vector2}, [](ir::Builder&, Inputs x) { return Results{ops::reduce_sum(x[0], {0})}; });
  CHECK(evaluate(transform::vmap(f, {true}, 0), {{}}) == std::vector<Elements>{{}});
  CHECK(evaluate(transform::vmap(f, {true}, 1), {{1, 2}}) == std::vector<Elements>{{3}});
}

TEST_CASE("vmap of vmap") {
  const auto f = make_function({scalar, scalar}, [](ir::Builder&, Inputs x) { return Results{ops::mul(x[0], x[1])}; });
  const auto outer_product = transform::vmap(transform::vmap(f, {false, true}, 3), {true, false}, 2);
  CHECK(evaluate(outer_product, {{1, 10}, {1, 2, 3}}) == std::vector<Elements>{{1, 2, 3, 10, 20, 30}});
}

TEST_CASE("vmap of a gradient equals a loop of gradients") {
  const auto f = make_function({vector2, vector2}, [](ir::Builder&, Inputs x) {
    return Results{ops::reduce_sum(ops::tanh(ops::mul(x[0], ops::sin(x[1]))), {0})};
  });
  const auto gradient = transform::value_and_grad(f, {true, false});
  const auto per_example = transform::vmap(gradient, {false, true}, 4);
  const Elements w{0.5, -0.25}, data{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<Elements> expected(2);
  for (std::ptrdiff_t row = 0; row < 4; ++row) {
    const auto one = evaluate(gradient, {w, {data.begin() + 2 * row, data.begin() + 2 * row + 2}});
    for (std::size_t i = 0; i < 2; ++i) expected[i].insert(expected[i].end(), one[i].begin(), one[i].end());
  }
  CHECK(evaluate(per_example, {w, data}) == expected);
}

TEST_CASE("what vmap refuses") {
  const auto f = make_function({vector2}, [](ir::Builder&, Inputs x) { return Results{x[0]}; });
  CHECK_THROWS_WITH_AS(transform::vmap(f, {true, true}, 2), "vmap: 2 batch flags for 1 inputs; give one per input",
                       ValueError);
  CHECK_THROWS_WITH_AS(transform::vmap(f, {true}, -1), "vmap: the batch size must not be negative, got -1", ValueError);

  ir::Primitive alone;
  alone.name = "alone";
  alone.infer = [](const ir::InferContext& context) { return std::vector<ArrayType>{context.inputs[0]}; };
  const auto g = make_function({vector2}, [&](ir::Builder&, Inputs x) { return ops::apply(alone, x); });
  CHECK_THROWS_WITH_AS(transform::vmap(g, {true}, 2), "vmap: alone has no batching rule; apply it outside of vmap",
                       TraceError);
  alone.batch = [](const ir::BatchContext& context) {
    return std::vector{ops::neg(ops::reduce_sum(context.inputs[0], {0}))};
  };
  CHECK_THROWS_WITH_AS(transform::vmap(g, {true}, 2), "vmap: the rule of alone gave f64[2] where f64[2,2] is needed",
                       IrError);
  alone.batch = [](const ir::BatchContext&) { return std::vector<ir::Value>{}; };
  CHECK_THROWS_WITH_AS(transform::vmap(g, {true}, 2), "vmap: the rule of alone gave 0 values for 1 results", IrError);
}

}  // namespace lockstep::tests
