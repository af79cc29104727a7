#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/layers.h>
#include <lockstep/model.h>
#include <lockstep/named_scope.h>
#include <lockstep/ops.h>

#include "engine/trace/trace.h"
#include "engine/transform/transforms.h"

using namespace lockstep;

namespace {

using Paths = std::vector<std::string>;

Paths paths_of(const ir::Function& f) {
  Paths paths;
  for (const ir::Equation& equation : f.equations()) {
    const auto& scope = equation.provenance.scope;
    paths.push_back(equation.primitive->name + "@" + (scope == nullptr ? "" : *scope));
  }
  return paths;
}

const ArrayType vector{float32, Shape{3}, {}};

}  // namespace

TEST_CASE("NamedScope marks what is traced while it lives, and nests") {
  const auto body = [](std::span<const Array> x) {
    Array y = sin(x[0]);
    {
      const NamedScope outer("encoder");
      y = cos(y);
      {
        const NamedScope inner("attention");
        y = exp(y);
      }
      y = tanh(y);
      const NamedScope whole = NamedScope::at("head/dense");
      y = log(y);
    }
    return std::vector{neg(y)};
  };
  const auto traced = tracing::trace(body, std::span(&vector, 1));
  CHECK(paths_of(*traced.function) ==
        Paths{"sin@", "cos@encoder", "exp@encoder/attention", "tanh@encoder", "log@head/dense", "neg@"});
}

TEST_CASE("NamedScope does nothing where nothing is traced") {
  const NamedScope scope("encoder");
  CHECK(sin(array(0.0)).item<double>() == 0);
}

TEST_CASE("a layer's equations carry its path, their derivatives too") {
  const Model model([](Scope& s, const Array& x) { return dense(s["head"]["out"], x, {.units = 2}); });
  const Array x = ones({4, 3});
  const auto [weights, state] = model.init(random::key(0), x);
  const std::vector<Array> leaves = weights.leaves();
  std::vector<ArrayType> types;
  for (const Array& leaf : leaves) types.push_back(leaf.type());
  const auto body = [&](std::span<const Array> w) {
    const Tree tree = weights.unflatten({w.begin(), w.end()});
    return std::vector{sum(model.stateless_call(tree, state, x, true).first)};
  };
  const auto traced = tracing::trace(body, types);
  std::vector<bool> active(traced.function->inputs().size(), false);
  std::fill_n(active.begin(), leaves.size(), true);
  const auto both = transform::value_and_grad(traced.function, active);
  int forward = 0;
  int backward = 0;
  for (const ir::Equation& equation : both->equations()) {
    if (equation.primitive->name != "dot_general") continue;
    REQUIRE(equation.provenance.scope != nullptr);
    CHECK(*equation.provenance.scope == "head/out");
    (equation.provenance.backward ? backward : forward) += 1;
  }
  CHECK(forward == 1);
  CHECK(backward == 1);
}
