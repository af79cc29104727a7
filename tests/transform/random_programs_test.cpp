#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "engine/transform/transforms.h"
#include "tests/support/derivative_checks.h"
#include "tests/support/random_program.h"

namespace lockstep::tests {

namespace {

using ir::FunctionPtr;

constexpr std::uint64_t programs = 200;

/// A random program, a point, a direction and a cotangent.
struct Case {
  explicit Case(std::uint64_t seed)
      : f(random_program(seed)),
        active(f->inputs().size(), true),
        x(random_arrays(f->input_types(), seed + 1000)),
        dx(random_arrays(f->input_types(), seed + 2000)),
        u(random_arrays(f->output_types(), seed + 3000)) {}

  FunctionPtr f;
  std::vector<bool> active;
  std::vector<Elements> x, dx, u;
};

std::vector<Elements> tail(const std::vector<Elements>& all, std::size_t n) {
  return {all.end() - static_cast<std::ptrdiff_t>(n), all.end()};
}
std::vector<Elements> head(const std::vector<Elements>& all, std::size_t n) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)};
}

int dead_equations(const ir::Function& f) {
  std::set<ir::Var> used(f.outputs().begin(), f.outputs().end());
  int dead = 0;
  for (auto equation = f.equations().rbegin(); equation != f.equations().rend(); ++equation) {
    const bool needed = std::ranges::any_of(equation->outputs, [&](ir::Var v) { return used.contains(v); });
    dead += needed ? 0 : 1;
    if (needed) used.insert(equation->inputs.begin(), equation->inputs.end());
  }
  return dead;
}

/// The first result of f alone.
FunctionPtr scalar_part(const FunctionPtr& f) {
  return make_function(f->input_types(), [&](ir::Builder& builder, std::span<const ir::Value> inputs) {
    std::vector<ir::Var> vars;
    for (const ir::Value& v : inputs) vars.push_back(v.var());
    return std::vector{ir::Value(builder, builder.inline_function(*f, vars)[0])};
  });
}

/// <gradient of f's first result, dx> as a function of x.
FunctionPtr slope_along(const FunctionPtr& f, const std::vector<Elements>& dx) {
  const FunctionPtr gradient = transform::value_and_grad(f, std::vector<bool>(f->inputs().size(), true));
  return make_function(f->input_types(), [&](ir::Builder& builder, std::span<const ir::Value> inputs) {
    std::vector<ir::Var> vars;
    for (const ir::Value& v : inputs) vars.push_back(v.var());
    const std::vector<ir::Var> results = builder.inline_function(*gradient, vars);
    ir::Value sum = ops::full(builder, DType::float64, Shape{}, 0);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const ir::Value g(builder, results[results.size() - dx.size() + i]);
      const ir::Value flat = ops::reshape(g, Shape{g.shape().size()});
      for (std::size_t k = 0; k < dx[i].size(); ++k) {
        const auto at = static_cast<std::int64_t>(k);
        sum = ops::add(sum, ops::mul(ops::reshape(ops::slice(flat, {at}, {at + 1}, {1}), Shape{}),
                                     ops::full(builder, DType::float64, Shape{}, dx[i][k])));
      }
    }
    return std::vector{sum};
  });
}

}  // namespace

TEST_CASE("random programs draw from many ops and are no constants") {
  std::set<std::string> names;
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const FunctionPtr f = random_program(seed);
    for (const ir::Equation& equation : f->equations()) names.insert(equation.primitive->name);
  }
  for (const char* name : {"add",         "broadcast_in_dim",
                           "concatenate", "cos",
                           "div",         "dot_general",
                           "erf",         "exp",
                           "expm1",       "gather_rows",
                           "log",         "log1p",
                           "logistic",    "maximum",
                           "minimum",     "mul",
                           "neg",         "pad",
                           "pow",         "reduce_max",
                           "reduce_prod", "reduce_sum",
                           "reshape",     "reverse",
                           "rsqrt",       "select",
                           "sin",         "slice",
                           "sqrt",        "sub",
                           "tanh",        "transpose"}) {
    CHECK_MESSAGE(names.contains(name), name);
  }
  int moving = 0;
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const Case c(seed);
    const auto results = evaluate(transform::jvp(c.f, c.active), joined(c.x, c.dx));
    moving += std::abs(results[2][0]) > 1e-6 ? 1 : 0;
  }
  CHECK(moving > static_cast<int>(programs) * 3 / 4);
}

TEST_CASE("jvp of random programs agrees with differences") {
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const Case c(seed);
    CAPTURE(seed);
    const FunctionPtr derivative = transform::jvp(c.f, c.active);
    const auto results = evaluate(derivative, joined(c.x, c.dx));
    CHECK(head(results, 2) == evaluate(c.f, c.x));
    CHECK(distance(tail(results, 2), central_difference(c.f, c.x, c.dx)) < 1e-7);
  }
}

TEST_CASE("linearize of random programs is jvp, and transpose its adjoint") {
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const Case c(seed);
    CAPTURE(seed);
    const auto parts = transform::linearize(c.f, c.active);
    const auto forward = evaluate(parts.forward, c.x);
    CHECK(head(forward, 2) == evaluate(c.f, c.x));
    const auto residuals = tail(forward, static_cast<std::size_t>(parts.residuals));
    const auto dy = evaluate(parts.linear, joined(residuals, c.dx));
    CHECK(dy == tail(evaluate(transform::jvp(c.f, c.active), joined(c.x, c.dx)), 2));
    const auto v = evaluate(transform::transpose(parts.linear, parts.residuals), joined(residuals, c.u));
    CHECK(std::abs(inner_product(c.u, dy) - inner_product(v, c.dx)) < 1e-12 * (1 + std::abs(inner_product(c.u, dy))));
    CHECK(joined(head(forward, 2), v) == evaluate(transform::vjp(c.f, c.active), joined(c.x, c.u)));
  }
}

TEST_CASE("transposing twice gives the linear function back") {
  for (std::uint64_t seed = 0; seed < programs / 4; ++seed) {
    const Case c(seed);
    CAPTURE(seed);
    const auto parts = transform::linearize(c.f, c.active);
    const auto residuals = tail(evaluate(parts.forward, c.x), static_cast<std::size_t>(parts.residuals));
    const auto twice = transform::transpose(transform::transpose(parts.linear, parts.residuals), parts.residuals);
    CHECK(distance(evaluate(twice, joined(residuals, c.dx)), evaluate(parts.linear, joined(residuals, c.dx))) < 1e-12);
  }
}

TEST_CASE("linearize leaves no dead equations") {
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const Case c(seed);
    CAPTURE(seed);
    const auto parts = transform::linearize(c.f, c.active);
    CHECK(dead_equations(*parts.forward) == 0);
    CHECK(dead_equations(*parts.linear) == 0);
  }
}

TEST_CASE("each residual is kept once, and none is a constant") {
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const Case c(seed);
    CAPTURE(seed);
    const auto parts = transform::linearize(c.f, c.active);
    const auto& outputs = parts.forward->outputs();
    const std::set<ir::Var> residuals(outputs.end() - parts.residuals, outputs.end());
    CHECK(residuals.size() == static_cast<std::size_t>(parts.residuals));
    for (const ir::Equation& equation : parts.forward->equations()) {
      if (equation.primitive->name == "full") CHECK(!residuals.contains(equation.outputs[0]));
    }
  }
}

TEST_CASE("vmap of random programs equals a loop") {
  constexpr std::int64_t size = 3;
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const Case c(seed);
    CAPTURE(seed);
    // Every second program keeps its first input unbatched.
    std::vector<bool> batched = c.active;
    batched[0] = seed % 2 == 0;
    const FunctionPtr mapped = transform::vmap(c.f, batched, size);
    const auto xs = random_arrays(mapped->input_types(), seed + 4000);
    std::vector<Elements> expected(2);
    for (std::int64_t row = 0; row < size; ++row) {
      std::vector<Elements> x = xs;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto n = static_cast<std::ptrdiff_t>(c.f->input_types()[i].size());
        if (batched[i]) x[i] = {xs[i].begin() + row * n, xs[i].begin() + (row + 1) * n};
      }
      const auto y = evaluate(c.f, x);
      for (std::size_t i = 0; i < 2; ++i) expected[i].insert(expected[i].end(), y[i].begin(), y[i].end());
    }
    CHECK(distance(evaluate(mapped, xs), expected) < 1e-13);
  }
}

TEST_CASE("second derivatives of random programs agree in every order of modes") {
  for (std::uint64_t seed = 0; seed < programs / 4; ++seed) {
    const Case c(seed);
    CAPTURE(seed);
    const FunctionPtr f = scalar_part(c.f);
    const FunctionPtr gradient = transform::value_and_grad(f, c.active);
    const auto forward_over_reverse = tail(evaluate(transform::jvp(gradient, c.active), joined(c.x, c.dx)), c.x.size());
    const auto reverse_over_reverse =
        tail(evaluate(transform::value_and_grad(slope_along(f, c.dx), c.active), c.x), c.x.size());
    CHECK(distance(forward_over_reverse, reverse_over_reverse) < 1e-11);
    CHECK(distance(forward_over_reverse, tail(central_difference(gradient, c.x, c.dx), c.x.size())) < 1e-6);
    // d2f(dx, dx) by jvp of jvp, the inner direction held fixed.
    std::vector<bool> first = c.active;
    first.resize(2 * c.x.size(), false);
    const auto twice = evaluate(transform::jvp(transform::jvp(f, c.active), first), joined(joined(c.x, c.dx), c.dx));
    CHECK(distance({twice.back()}, {{inner_product(forward_over_reverse, c.dx)}}) < 1e-11);
  }
}

}  // namespace lockstep::tests
