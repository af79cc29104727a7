#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/transforms.h"
#include "tests/support/derivative_checks.h"
#include "tests/support/random_program.h"
#include "tests/transform/bodies.h"

// Gradients inside a map: where collectives come from, and how many.
namespace lockstep::tests {

namespace {

const ir::AxisSizes batch2({{"batch", 2}});
const AxisSet batch{"batch"};
const ArrayType weight{DType::float64, Shape{}, {}};
const ArrayType local{DType::float64, Shape{1}, batch};

ir::Value sum(const ir::Value& x) { return ops::reduce_sum(x, {0}); }

/// psum(w * data)
ir::FunctionPtr mapped_loss() {
  return make_function(
      {weight, local}, [](ir::Builder&, Inputs x) { return Results{ops::psum(ops::mul(x[0], sum(x[1])), batch)}; },
      batch2);
}

int collectives(const ir::Function& f) {
  int found = 0;
  for (const ir::Equation& equation : f.equations()) found += equation.primitive->traits.collective ? 1 : 0;
  return found;
}

using Layouts = std::vector<std::vector<std::string>>;

/// `body` over its mesh, which has one axis.
ir::FunctionPtr mapped(const ir::FunctionPtr& body, const std::vector<ArrayType>& types, const Layouts& in,
                       const Layouts& out) {
  return make_function(types, [&](ir::Builder&, Inputs x) {
    return ops::apply(ops::primitives::pmap(), x,
                      {{"body", std::static_pointer_cast<const AttrObject>(body)},
                       {"axes", std::vector<std::string>{body->axes().axes()[0].name}},
                       {"sizes", std::vector<std::int64_t>{body->axes().axes()[0].size}},
                       {"devices", std::vector<std::string>{"cpu:0"}},
                       {"in", in},
                       {"out", out}});
  });
}

/// The sum over rows of a random program's first result; the program's last input has one row per example. With an
/// axis, the rows are those of one shard and the sum is over all shards.
ir::FunctionPtr sum_over_rows(const ir::FunctionPtr& program, std::int64_t rows, const ir::AxisSizes& axes) {
  std::vector<bool> batched(program->inputs().size(), false);
  batched.back() = true;
  const auto per_row = transform::vmap(program, batched, rows);
  std::vector<ArrayType> types = per_row->input_types();
  if (!axes.empty()) types.back().varying = batch;
  const auto body = [&](ir::Builder& builder, Inputs x) {
    std::vector<ir::Var> arguments;
    for (const ir::Value& v : x) arguments.push_back(v.var());
    const ir::Value total = sum(ir::Value(builder, builder.inline_function(*per_row, arguments)[0]));
    if (axes.empty()) return Results{total};
    return Results{ops::psum(ops::pvary(total, batch), batch)};
  };
  return make_function(types, body, axes);
}

std::vector<std::string> layout(const ArrayType& type) {
  std::vector<std::string> cut(static_cast<std::size_t>(type.shape.rank()));
  if (!type.varying.empty()) cut[0] = "batch";
  return cut;
}

Layouts layouts(const std::vector<ArrayType>& types) {
  Layouts result;
  for (const ArrayType& type : types) result.push_back(layout(type));
  return result;
}

}  // namespace

TEST_CASE("gradients of random programs over shards are those of the whole batch") {
  constexpr std::int64_t rows = 4;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const auto program = random_program(seed);
    const std::vector<bool> active(program->inputs().size(), true);
    const auto whole = transform::value_and_grad(sum_over_rows(program, rows, {}), active);
    const auto x = random_arrays(whole->input_types(), seed);
    const auto expected = evaluate(whole, x);
    for (const std::int64_t shards : {1, 2, 4}) {
      CAPTURE(shards);
      const auto body = sum_over_rows(program, rows / shards, ir::AxisSizes({{"batch", shards}}));
      const auto gradient = transform::value_and_grad(body, active);
      const auto step =
          mapped(gradient, whole->input_types(), layouts(gradient->input_types()), layouts(gradient->output_types()));
      CHECK(distance(evaluate(step, x), expected) < 1e-12);
    }
  }
}

TEST_CASE("the transpose of a replicated value used on shards is one psum") {
  const auto linear = make_function(
      {local, weight}, [](ir::Builder&, Inputs x) { return Results{ops::mul(sum(x[0]), x[1])}; }, batch2);
  const auto back = transform::transpose(linear, 1);
  ir::verify(*back);
  CHECK(collectives(*back) == 1);
  CHECK(count(*back, "psum") == 1);
  CHECK(back->output_types()[0] == weight);
}

TEST_CASE("the transpose of psum needs no collective") {
  const auto linear = make_function(
      {local}, [](ir::Builder&, Inputs x) { return Results{ops::psum(x[0], batch)}; }, batch2);
  const auto back = transform::transpose(linear, 0);
  ir::verify(*back);
  CHECK(collectives(*back) == 0);
  CHECK(count(*back, "pvary") == 1);
  CHECK(back->output_types()[0] == local);
}

TEST_CASE("the gradient inside a map is that of the whole batch") {
  const auto gradient = transform::value_and_grad(mapped_loss(), {true, false});
  const auto body = make_function(
      {weight, local},
      [&](ir::Builder& builder, Inputs x) {
        const std::vector<ir::Var> arguments{x[0].var(), x[1].var()};
        const ir::Value g(builder, builder.inline_function(*gradient, arguments)[1]);
        return Results{g, ops::pvary(ops::reshape(g, Shape{1}), batch)};
      },
      batch2);
  const auto step = mapped(body, {weight, {DType::float64, Shape{2}, {}}}, {{}, {"batch"}}, {{}, {"batch"}});
  CHECK(evaluate(step, {{1}, {0, 1}}) == std::vector<Elements>{{1}, {1, 1}});
}

TEST_CASE("a weight used three times costs one psum in its gradient") {
  const auto f = make_function(
      {weight, local},
      [](ir::Builder&, Inputs x) {
        const ir::Value data = sum(x[1]);
        const ir::Value y = ops::add(ops::mul(ops::sin(ops::mul(x[0], data)), x[0]), ops::mul(x[0], ops::cos(data)));
        return Results{ops::psum(y, batch)};
      },
      batch2);
  CHECK(count(*f, "pvary") == 1);
  const auto gradient = transform::value_and_grad(f, {true, false});
  ir::verify(*gradient);
  CHECK(count(*gradient, "psum") == 2);
  CHECK(collectives(*gradient) == 2);
  CHECK(gradient->output_types() == std::vector<ArrayType>{weight, weight});
}

TEST_CASE("a penalty beside the data's loss costs no reduction of its own") {
  const auto f = make_function(
      {weight, local},
      [](ir::Builder&, Inputs x) {
        return Results{ops::psum(ops::mul(x[0], sum(x[1])), batch) + ops::mul(x[0], x[0])};
      },
      batch2);
  const auto gradient = transform::value_and_grad(f, {true, false});
  ir::verify(*gradient);
  CHECK(count(*gradient, "psum") == 2);
}

TEST_CASE("gradients vary as their arguments do") {
  const auto gradient = transform::value_and_grad(mapped_loss(), {true, true});
  ir::verify(*gradient);
  CHECK(gradient->output_types() == std::vector<ArrayType>{weight, weight, local});
}

TEST_CASE("an argument that is not reached has a gradient that varies as it does") {
  const auto f = make_function(
      {weight, local}, [](ir::Builder&, Inputs x) { return Results{x[0]}; }, batch2);
  const auto gradient = transform::value_and_grad(f, {true, true});
  ir::verify(*gradient);
  CHECK(gradient->output_types() == std::vector<ArrayType>{weight, weight, local});
  CHECK(transform::jvp(f, {false, true})->output_types() == std::vector<ArrayType>{weight, weight});
}

TEST_CASE("what a rule leaves invariant is made to vary as its value does") {
  const ArrayType varying{DType::float64, Shape{}, batch};
  const auto identity = make_function(
      {varying}, [](ir::Builder&, Inputs x) { return Results{x[0]}; }, batch2);
  const auto gradient = transform::value_and_grad(identity, {true});
  ir::verify(*gradient);
  CHECK(gradient->output_types()[1] == varying);

  ir::Primitive steady;
  steady.name = "steady";
  steady.infer = [](const ir::InferContext& context) { return std::vector<ArrayType>{context.inputs[0]}; };
  steady.derivative.kind = ir::Derivative::Kind::jvp;
  steady.derivative.jvp = [](const ir::JvpContext& context) -> std::vector<ir::Tangent> {
    return {ops::full_like(context.inputs[0], 1)};
  };
  const auto f = make_function(
      {varying}, [&](ir::Builder&, Inputs x) { return ops::apply(steady, x); }, batch2);
  const auto derivative = transform::jvp(f, {true});
  ir::verify(*derivative);
  CHECK(derivative->output_types()[1] == varying);
}

TEST_CASE("a loss that varies has a gradient only for arguments that vary") {
  const auto f = make_function(
      {weight, local}, [](ir::Builder&, Inputs x) { return Results{ops::mul(x[0], sum(x[1]))}; }, batch2);
  CHECK_THROWS_WITH_AS(
      transform::value_and_grad(f, {true, false}),
      "value_and_grad: the loss f64[]{batch} varies along \"batch\", so every replica would differentiate its own part "
      "of "
      "it, but input 0 is f64[], the same on all of them. psum the loss (or return Weighted{sum, weight} to "
      "data_parallel); for a gradient of each replica's own part, or of each example, differentiate at "
      "pvary(argument, axes)",
      MeshError);
  const auto gradient = transform::value_and_grad(f, {false, true});
  ir::verify(*gradient);
  CHECK(collectives(*gradient) == 0);
  CHECK(gradient->output_types()[1] == local);
}

TEST_CASE("vmap inside a map leaves reductions over the mesh alone") {
  const auto mapped = transform::vmap(mapped_loss(), {false, true}, 3);
  ir::verify(*mapped);
  CHECK(count(*mapped, "psum") == 1);
  CHECK(mapped->output_types()[0] == ArrayType{DType::float64, Shape{3}, {}});
}

}  // namespace lockstep::tests
