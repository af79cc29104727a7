#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/support/op_functions.h"

// Batching rules against a loop over the batch.
namespace lockstep::tests {
namespace {

/// Every way in which at least one operand is batched; of more than six operands, those ways in which at most two differ
/// from the others.
std::vector<std::vector<bool>> batched_sets(std::size_t operands) {
  constexpr std::size_t few = 6;
  std::vector<std::vector<bool>> sets;
  for (std::size_t mask = 1; mask < (std::size_t{1} << operands); ++mask) {
    const auto count = static_cast<std::size_t>(std::popcount(mask));
    if (operands > few && std::min(count, operands - count) > 2) continue;
    std::vector<bool> batched;
    for (std::size_t i = 0; i < operands; ++i) batched.push_back((mask >> i & 1) != 0);
    sets.push_back(batched);
  }
  return sets;
}

void check_batch(const ir::Primitive& op, const ir::Sample& sample, const std::vector<bool>& batched,
                 std::int64_t size) {
  ir::Sample drawn = sample;
  for (std::size_t i = 0; i < batched.size(); ++i) {
    if (batched[i]) drawn.inputs[i].type.shape = drawn.inputs[i].type.shape.insert(0, size);
  }
  const FunctionPtr function = batch_function(op, sample, batched, size);
  const std::vector<ArrayType> expected = output_types(op, sample);
  const std::vector<ArrayType> types = function->output_types();
  for (std::size_t k = 0; k < expected.size(); ++k) {
    CHECK(types[k].dtype == expected[k].dtype);
    CHECK(types[k].shape == expected[k].shape.insert(0, size));
    CHECK(types[k].varying == expected[k].varying);
  }
  const std::vector<ir::ReferenceArray> results = run(over_mesh(function), draw(drawn, 5));
  if (size == 0) return;
  REQUIRE(results.size() == 2 * expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    CHECK(first_difference(results[k], results[expected.size() + k]) == -1);
  }
}

}  // namespace

TEST_CASE("every batching rule agrees with a loop, whichever operands are batched") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    if (!has_value(op)) continue;
    for (const ir::Sample& sample : op.samples()) {
      for (const std::vector<bool>& batched : batched_sets(sample.inputs.size())) {
        CAPTURE(text(op, sample, batched));
        check_batch(op, sample, batched, 3);
      }
      if (sample.inputs.empty()) continue;
      const std::vector<bool> all(sample.inputs.size(), true);
      CAPTURE(text(op, sample, all));
      check_batch(op, sample, all, 1);
      check_batch(op, sample, all, 0);
    }
  }
}

TEST_CASE("ops without operands are repeated") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    for (const ir::Sample& sample : op.samples()) {
      if (!sample.inputs.empty()) continue;
      CAPTURE(text(op, sample));
      check_batch(op, sample, {}, 2);
    }
  }
}

}  // namespace lockstep::tests
