#include <lockstep/control_flow.h>
#include <lockstep/initializers.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/schedules.h>

#include "tests/golden/functions/table.h"

// Loops and branches, initializers, schedules and optimizers.
namespace lockstep::tests::functions {
namespace {

const Input five_by_three = drawn({5, 3}), row = drawn({3});

Lines loops() {
  const auto step = [](A carry, A each) { return std::pair(sin(carry) + each, carry * each); };
  const auto both = [](A a, A b) { return a * b; };
  const std::string_view forward_alone = "neither has reverse mode: how many residuals there are is not known";
  return {
      {"scan",
       "lax.scan(lambda c, a: (jnp.sin(c) + a, c * a), x, y)",
       {row, five_by_three},
       [=](A x, A y) { return scan(step, x, y); }},
      {"scan",
       "lax.scan(lambda c, a: (jnp.sin(c) + a, c * a), x, y, reverse=True)",
       {row, five_by_three},
       [=](A x, A y) { return scan(step, x, y, {.reverse = true}); }},
      {"scan",
       "lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=4)",
       {row},
       [](A x) { return scan([](A c) { return std::pair(sin(c), c); }, x, {.length = 4}); }},
      {"scan",
       "lax.scan(lambda c, a: (jnp.sin(c) + a, c * a), x, y)",
       {row, drawn({0, 3})},
       [=](A x, A y) { return scan(step, x, y); }},
      {"while_loop",
       "lax.while_loop(lambda c: jnp.sum(c) < 50, lambda c: 2 * c + 1, x)",
       {drawn({3}, 0, 1)},
       [](A x) { return while_loop([](A c) { return sum(c) < 50; }, [](A c) { return 2 * c + 1; }, x); },
       {.no_derivative = forward_alone}},
      {"fori_loop",
       "lax.fori_loop(2, 6, lambda i, c: jnp.sin(c) * i, x)",
       {row},
       [](A x) {
         return fori_loop(
             2, 6, [](A i, A c) { return sin(c) * i; }, x);
       }},
      {"fori_loop",
       "lax.fori_loop(0, y, lambda i, c: jnp.sin(c) * i, x)",
       {row, whole({3}, Shape{})},
       [](A x, A y) {
         return fori_loop(
             0, y, [](A i, A c) { return sin(c) * i; }, x);
       },
       {.no_derivative = forward_alone}},
      {"cond",
       "lax.cond(y > 0, jnp.sin, lambda a: a * a, x)",
       {row, whole({1}, Shape{})},
       [](A x, A y) {
         return cond(
             y > 0, [](A a) { return sin(a); }, [](A a) { return a * a; }, x);
       }},
      {"switch_",
       "lax.switch(y, [jnp.sin, jnp.exp, lambda a: a * a], x)",
       {row, whole({9}, Shape{})},
       [](A x, A y) {
         return switch_(y, {[](A a) { return sin(a); }, [](A a) { return exp(a); }, [](A a) { return a * a; }}, x);
       }},
      {"map",
       "lax.map(lambda a: jnp.sum(a) * a, x)",
       {five_by_three},
       [](A x) { return map([](A a) { return sum(a) * a; }, x); }},
      {"associative_scan",
       "lax.associative_scan(jnp.multiply, x)",
       {five_by_three},
       [=](A x) { return associative_scan(both, x); }},
      {"associative_scan",
       "lax.associative_scan(jnp.multiply, x, reverse=True, axis=1)",
       {five_by_three},
       [=](A x) { return associative_scan(both, x, {.reverse = true, .axis = 1}); }},
  };
}

Lines initial_values() {
  Lines lines;
  const auto add = [&](std::string_view function, std::string_view jax, const Initializer& initializer) {
    const Input key = whole({20261121}, Shape{}, DType::key);
    lines.push_back({function, jax, {key, drawn({1})}, [initializer](A key, A of_dtype) {
                       return initializer(key, {4, 3, 5}, of_dtype.dtype());
                     }});
  };
  add("initializers::zeros", "nn.initializers.zeros(x, (4, 3, 5), dtype)", initializers::zeros());
  add("initializers::ones", "nn.initializers.ones(x, (4, 3, 5), dtype)", initializers::ones());
  add("initializers::constant", "nn.initializers.constant(1.5)(x, (4, 3, 5), dtype)", initializers::constant(1.5));
  add("initializers::normal", "nn.initializers.normal(0.3)(x, (4, 3, 5), dtype)", initializers::normal(0.3));
  add("initializers::truncated_normal", "truncated_normal(0.3)(x, (4, 3, 5), dtype)",
      initializers::truncated_normal(0.3));
  add("initializers::uniform", "jax.random.uniform(x, (4, 3, 5), dtype, -0.5, 0.25)",
      initializers::uniform(-0.5, 0.25));
  add("initializers::glorot_uniform", "nn.initializers.glorot_uniform()(x, (4, 3, 5), dtype)",
      initializers::glorot_uniform());
  add("initializers::glorot_normal", "nn.initializers.glorot_normal()(x, (4, 3, 5), dtype)",
      initializers::glorot_normal());
  add("initializers::he_uniform", "nn.initializers.he_uniform()(x, (4, 3, 5), dtype)", initializers::he_uniform());
  add("initializers::he_normal", "nn.initializers.he_normal()(x, (4, 3, 5), dtype)", initializers::he_normal());
  add("initializers::lecun_uniform", "nn.initializers.lecun_uniform()(x, (4, 3, 5), dtype)",
      initializers::lecun_uniform());
  add("initializers::lecun_normal", "nn.initializers.lecun_normal()(x, (4, 3, 5), dtype)",
      initializers::lecun_normal());
  add("initializers::orthogonal", "nn.initializers.orthogonal(0.5)(x, (4, 3, 5), dtype)",
      initializers::orthogonal(0.5));
  return lines;
}

Lines rates() {
  Lines lines;
  const auto add = [&](std::string_view function, std::string_view jax, const Schedule& schedule) {
    const Input steps = whole({0, 1, 2, 5, 9, 10, 11, 50});
    lines.push_back(
        {function, jax, {steps}, [schedule](A steps) { return map(schedule, steps); }, {.dtypes = {float64}}});
  };
  add("schedules::constant", "jnp.full(x.shape, 0.3, 'float64')", schedules::constant(0.3));
  add("schedules::cosine", "0.3 * (0.9 * half_cosine(x.astype('float64') / 10) + 0.1)",
      schedules::cosine(0.3, 10, 0.1));
  add("schedules::warmup_cosine",
      "jnp.where(x < 4, 0.1 + 0.4 * x.astype('float64') / 4, 0.05 + 0.45 * half_cosine((x - 4).astype('float64') / 6))",
      schedules::warmup_cosine(0.1, 0.5, 4, 10, 0.05));
  add("schedules::piecewise_constant", "jnp.select([x <= 2, x <= 9], [0.3, 0.2], 0.1).astype('float64')",
      schedules::piecewise_constant({2, 9}, {0.3, 0.2, 0.1}));
  return lines;
}

/// The updates of three steps with the gradients x, y and z, of parameters w.
Lines optimizers() {
  Lines lines;
  const auto add = [&](std::string_view function, std::string_view jax, const optim::GradientTransformation& t) {
    const auto call = [t](A x, A y, A z, A w) {
      Tree parameters = Tree::dict({{"a", w}}), state = t.init(parameters);
      Arrays updates;
      for (const Array& gradient : {x, y, z}) {
        auto [update, next] = t.update(Tree::dict({{"a", gradient}}), state, parameters);
        updates.push_back(convert(update.at("a").array(), w.dtype()));
        parameters = optim::apply_updates(parameters, update);
        state = next;
      }
      return updates;
    };
    lines.push_back({function, jax, {row, row, row, row}, call, {.no_derivative = "nobody differentiates an update"}});
  };
  add("optim::identity", "steps(lambda n: lambda g, p, m, v: (g, m, v), x, y, z, w)", optim::identity());
  add("optim::scale_by_learning_rate", "steps(lambda n: lambda g, p, m, v: (-0.1 * g, m, v), x, y, z, w)",
      optim::scale_by_learning_rate(0.1));
  add("optim::trace", "steps(momentum(0.9, False), x, y, z, w)", optim::trace(0.9));
  add("optim::trace", "steps(momentum(0.9, True), x, y, z, w)", optim::trace(0.9, true));
  add("optim::scale_by_adam", "steps(adam(0.8, 0.95, 1e-6), x, y, z, w)", optim::scale_by_adam(0.8, 0.95, 1e-6));
  add("optim::add_decayed_weights", "steps(lambda n: lambda g, p, m, v: (g + 0.1 * p, m, v), x, y, z, w)",
      optim::add_decayed_weights(0.1));
  add("optim::clip_by_global_norm",
      "steps(lambda n: lambda g, p, m, v: (g * jnp.minimum(1, 1.5 / jnp.linalg.norm(g)), m, v), x, y, z, w)",
      optim::clip_by_global_norm(1.5));
  add("optim::clip_by_value", "steps(lambda n: lambda g, p, m, v: (jnp.clip(g, -0.5, 0.5), m, v), x, y, z, w)",
      optim::clip_by_value(0.5));
  add("optim::sgd", "steps(scaled(momentum(0.9, True), -0.1), x, y, z, w)", optim::sgd(0.1, 0.9, true));
  add("optim::adam", "steps(scaled(adam(0.9, 0.999, 1e-8), -0.1), x, y, z, w)", optim::adam(0.1));
  add("optim::adamw", "steps(scaled(decayed(adam(0.9, 0.999, 1e-8), 0.01), -0.1), x, y, z, w)",
      optim::adamw(0.1, 0.9, 0.999, 1e-8, 0.01));
  add("optim::scale_by_lion", "steps(lion(0.8, 0.95), x, y, z, w)", optim::scale_by_lion(0.8, 0.95));
  add("optim::lion", "steps(scaled(decayed(lion(0.9, 0.99), 0.01), -0.1), x, y, z, w)",
      optim::lion(0.1, 0.9, 0.99, 0.01));
  add("optim::chain", "steps(scaled(adam(0.8, 0.95, 1e-6), -0.2), x, y, z, w)",
      optim::chain(optim::scale_by_adam(0.8, 0.95, 1e-6), optim::scale_by_learning_rate(0.2)));
  add("optim::masked", "steps(lambda n: lambda g, p, m, v: (g, m, v), x, y, z, w)",
      optim::masked(optim::clip_by_value(0.1), optim::below("b")));
  add("optim::freeze", "steps(lambda n: lambda g, p, m, v: (0 * g, m, v), x, y, z, w)",
      optim::freeze(optim::below("a")));
  lines.push_back({"optim::global_norm", "jnp.sqrt(jnp.sum(x**2) + jnp.sum(y**2))", {five_by_three, row}, [](A x, A y) {
                     return optim::global_norm(Tree::dict({{"a", x}, {"b", y}}));
                   }});
  lines.push_back({"optim::apply_updates", "x + y", {row, row}, [](A x, A y) {
                     return optim::apply_updates(Tree(x), Tree(y)).array();
                   }});
  return lines;
}

}  // namespace

Lines training_lines() {
  Lines lines = loops();
  for (const Lines& part : {initial_values(), rates(), optimizers()}) {
    lines.insert(lines.end(), part.begin(), part.end());
  }
  return lines;
}

}  // namespace lockstep::tests::functions
