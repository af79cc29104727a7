#pragma once

#include <optional>
#include <string>

#include <lockstep/backend/backend.h>

#include "engine/ir/text/parse.h"
#include "engine/ir/text/print.h"
#include "engine/transform/transforms.h"
#include "tests/support/derivative_checks.h"
#include "tests/support/random_nested_program.h"
#include "tests/support/run_compiled.h"

// What must hold for any program: a text that says which law one breaks, or nothing.
namespace lockstep::tests {

using Law = std::optional<std::string>;

inline std::vector<Elements> first(const std::vector<Elements>& all, std::size_t n) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)};
}
inline std::vector<Elements> last(const std::vector<Elements>& all, std::size_t n) {
  return {all.end() - static_cast<std::ptrdiff_t>(n), all.end()};
}

/// A drawn program with a point, a direction and a cotangent.
struct Drawn {
  Drawn(ir::FunctionPtr function, std::uint64_t seed)
      : f(std::move(function)),
        active(f->inputs().size(), true),
        x(random_arrays(f->input_types(), seed + 1)),
        dx(random_arrays(f->input_types(), seed + 2)),
        u(random_arrays(f->output_types(), seed + 3)) {}

  ir::FunctionPtr f;
  std::vector<bool> active;
  std::vector<Elements> x, dx, u;
};

inline Law text_round_trips(const Drawn& c) {
  const std::string text = c.f->print(0);
  const ir::FunctionPtr parsed = ir::parse(text, ops::find_primitive);
  if (parsed->print(0) != text) return "print, parse, print";
  if (parsed->hash() != c.f->hash()) return "the hash of what was parsed";
  if (evaluate(parsed, c.x) != evaluate(c.f, c.x)) return "the value of what was parsed";
  return {};
}

inline Law compiles_to_the_same_bits(const Drawn& c, const std::shared_ptr<const backend::Backend>& backend) {
  std::vector<eval::HostArray> arguments;
  for (std::size_t i = 0; i < c.x.size(); ++i) arguments.push_back(to_host(c.f->input_types()[i], c.x[i]));
  const Bytes expected = bytes_of(eval::eval(*c.f, arguments, *backend));
  for (const bool optimize : {true, false}) {
    if (compiled(c.f, arguments, backend, 2, optimize) != expected) {
      return optimize ? "compiled bits" : "compiled bits without passes";
    }
  }
  return {};
}

inline Law jvp_is_the_derivative(const Drawn& c) {
  const ir::FunctionPtr derivative = transform::jvp(c.f, c.active);
  const std::size_t n = c.f->outputs().size();
  // A kink or a jump may lie within one difference's step, hardly within three; and loops in loops may be so steep that
  // only a short step sees a line, at the cost of digits.
  for (const double shift : {0.0, 0.0371, 0.1193}) {
    const std::vector<Elements> x = moved(c.x, c.dx, shift);
    const auto results = evaluate(derivative, joined(x, c.dx));
    if (first(results, n) != evaluate(c.f, x)) return "the outputs of jvp";
    for (const double step : {1e-4, 1e-6}) {
      if (distance(last(results, n), central_difference(c.f, x, c.dx, step)) < 1e-5) return {};
    }
  }
  return "jvp against differences";
}

inline Law transpose_is_dual(const Drawn& c) {
  const std::size_t n = c.f->outputs().size();
  const auto parts = transform::linearize(c.f, c.active);
  const auto forward = evaluate(parts.forward, c.x);
  if (first(forward, n) != evaluate(c.f, c.x)) return "the outputs of linearize";
  const auto residuals = last(forward, static_cast<std::size_t>(parts.residuals));
  const auto dy = evaluate(parts.linear, joined(residuals, c.dx));
  if (distance(dy, last(evaluate(transform::jvp(c.f, c.active), joined(c.x, c.dx)), n)) > 1e-12) return "linearize";
  const auto v = evaluate(transform::transpose(parts.linear, parts.residuals), joined(residuals, c.u));
  const double forth = inner_product(c.u, dy);
  if (std::abs(forth - inner_product(v, c.dx)) > 1e-10 * (1 + std::abs(forth))) return "the dual of linearize";
  return {};
}

inline Law vmap_is_a_loop(const Drawn& c, std::uint64_t seed) {
  constexpr std::int64_t size = 3;
  std::vector<bool> batched = c.active;
  batched[0] = seed % 2 == 0 || batched.size() == 1;
  const ir::FunctionPtr batch = transform::vmap(c.f, batched, size);
  const auto xs = random_arrays(batch->input_types(), seed + 4);
  std::vector<Elements> expected(c.f->outputs().size());
  for (std::int64_t row = 0; row < size; ++row) {
    std::vector<Elements> x = xs;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto n = static_cast<std::ptrdiff_t>(c.f->input_types()[i].size());
      if (batched[i]) x[i] = {xs[i].begin() + row * n, xs[i].begin() + (row + 1) * n};
    }
    const auto y = evaluate(c.f, x);
    for (std::size_t i = 0; i < y.size(); ++i) expected[i].insert(expected[i].end(), y[i].begin(), y[i].end());
  }
  if (distance(evaluate(batch, xs), expected) > 1e-12) return "vmap against a loop";
  return {};
}

/// The first law that a program breaks. Programs with while loops have no reverse mode.
inline Law broken_law(const ir::FunctionPtr& f, std::uint64_t seed, bool reverse_mode,
                      const std::shared_ptr<const backend::Backend>& backend) {
  const Drawn c(f, seed);
  if (Law law = text_round_trips(c)) return law;
  if (Law law = compiles_to_the_same_bits(c, backend)) return law;
  if (Law law = jvp_is_the_derivative(c)) return law;
  if (reverse_mode) {
    if (Law law = transpose_is_dual(c)) return law;
  }
  return vmap_is_a_loop(c, seed);
}

/// The program of a seed: 1, 2 or 4 shards on 1 or 2 devices; every fifth has while loops.
inline NestedOptions options_of(std::uint64_t seed) {
  NestedOptions options;
  options.shards = std::int64_t{1} << (seed % 3);
  options.devices = options.shards > 1 && seed % 2 == 0 ? 2 : 1;
  options.while_loops = seed % 5 == 4;
  return options;
}

}  // namespace lockstep::tests
