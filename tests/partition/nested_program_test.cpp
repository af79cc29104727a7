#include <cmath>
#include <cstdint>
#include <random>

#include <doctest/doctest.h>

#include "tests/partition/partitioned.h"
#include "tests/support/random_nested_program.h"

namespace lockstep::tests {
namespace {

/// Carries, branches and checkpoints of arrays that a mesh of two divides now and then.
void check_nested(const ir::FunctionPtr& f, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  const ir::AxisSizes mesh({{"data", 2}, {"model", 2}});
  std::vector<partition::ValueLayout> in;
  std::vector<Elements> inputs;
  for (const ArrayType& type : f->input_types()) {
    partition::ValueLayout layout = partition::whole(type.shape.rank());
    for (const char* axis : {"data", "model"}) {
      if (type.shape.rank() == 0) break;
      const auto d = static_cast<std::size_t>(bits() % static_cast<std::uint64_t>(type.shape.rank()));
      const std::int64_t count = 2 * partition::blocks(layout.cuts[d], mesh);
      if (type.shape[static_cast<int>(d)] % count == 0) layout.cuts[d].emplace_back(axis);
    }
    in.push_back(std::move(layout));
    Elements elements;
    for (std::int64_t i = 0; i < type.size(); ++i) elements.push_back(static_cast<double>(bits() % 1000) / 500 - 1);
    inputs.push_back(std::move(elements));
  }
  const std::vector<std::optional<partition::ValueLayout>> out(f->outputs().size());
  const std::vector<Elements> expected = evaluate(f, inputs);
  const std::vector<Elements> given = evaluate(partitioned(f, mesh, in, out), inputs);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    CAPTURE(k);
    for (std::size_t i = 0; i < expected[k].size(); ++i) {
      if (std::isnan(expected[k][i]) && std::isnan(given[k][i])) continue;
      REQUIRE(given[k][i] == doctest::Approx(expected[k][i]).epsilon(1e-8));
    }
  }
}

TEST_CASE("drawn programs with loops, branches and checkpoints mean the same on a mesh") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    check_nested(RandomNestedProgram(seed, {.equations = 8, .nesting = 2, .while_loops = true}).make(10), seed);
  }
}

TEST_CASE("so do their derivatives") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const ir::FunctionPtr f = RandomNestedProgram(seed, {.equations = 6, .nesting = 1}).make(8);
    check_nested(transform::value_and_grad(f, std::vector<bool>(f->inputs().size(), true)), seed);
  }
}

}  // namespace
}  // namespace lockstep::tests
