#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/array.h>
#include <lockstep/backend/backend.h>

#include "engine/compile/compile.h"
#include "engine/ops/primitives.h"
#include "engine/runtime/run.h"
#include "tests/golden/ops/cases.h"
#include "tests/golden/ops/differences.h"
#include "tests/golden/stored_values.h"
#include "tests/support/samples.h"

// Every op's results, derivatives and batches, compiled, against JAX 0.10.2. jax_ops.py says how to regenerate.
namespace lockstep::tests::golden {
namespace {

/// What to run where an op's values are not there, or not those of its samples.
std::string remedy_of_op(const ir::Primitive& op) {
  return "; run (with jax " + std::string(jax_version) +
         " from PyPI): python tests/golden/ops/jax_ops.py <tests_golden> " + op.name;
}

const backend::Backend& owner_of_memory(const compile::Options& options) {
  const auto is_cpu = [](const auto& backend) { return backend->name() == "cpu"; };
  return **std::ranges::find_if(options.backends, is_cpu);
}

std::vector<eval::HostArray> run_op(const Run& run_op, const compile::Options& options) {
  std::vector<eval::HostArray> arguments;
  for (const ir::ReferenceArray& input : run_op.inputs) {
    arguments.push_back(eval::host_array(input.type, ir::reference_to_bytes(input), owner_of_memory(options)));
  }
  return runtime::run(*compile::lower(run_op.function, options), arguments);
}

/// Compares a case's runs with what JAX gave; the count of values.
std::size_t compare_op(const Case& c, const StoredCase& stored, const compile::Options& options) {
  std::size_t at = 0, compared = 0;
  for (const Run& each : c.runs) {
    INFO(c.describe() << " " << each.label());
    const std::vector<eval::HostArray> results = run_op(each, options);
    for (std::size_t i = each.first; i < results.size(); ++i) {
      REQUIRE_MESSAGE(at < stored.results.size(), "results are missing" << remedy_of_op(*c.op));
      const ArrayType type{results[i].type.dtype, results[i].type.shape, {}};
      const auto given = ir::reference_from_bytes(type, eval::host_bytes(results[i]));
      const auto expected = values_of(stored.results[at++], each.label(), type);
      const std::int64_t place = first_difference_within(given, expected, bound(c.op->name, each.way, type.dtype));
      CHECK_MESSAGE(place == -1, "result " << i - each.first << " " << to_string(type) << " element " << place << ": "
                                           << element_text(given, std::max<std::int64_t>(place, 0)) << ", JAX has "
                                           << element_text(expected, std::max<std::int64_t>(place, 0)));
      compared += static_cast<std::size_t>(type.size());
    }
  }
  CHECK_MESSAGE(at == stored.results.size(), "there are more results" << remedy_of_op(*c.op));
  return compared;
}

}  // namespace

TEST_CASE("every op, its derivatives and batches have JAX's values") {
  std::map<std::string, StoredCase> stored = read_stored(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/ops/jax");
  compile::Options options;
  options.backends = backend::built_backends();
  options.verify = true;
  std::size_t ops = 0, cases = 0, runs = 0, values = 0;
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    const ir::Primitive& op = get();
    if (!compares_any(op.name)) continue;
    ++ops;
    for (const Case& c : cases_of(op)) {
      INFO(c.describe());
      const auto found = stored.find(c.name);
      if (found == stored.end()) {
        if (c.runs.empty()) continue;
        FAIL_CHECK("JAX's values are missing, and differences.cpp gives no reason" << remedy_of_op(op));
        break;
      }
      if (found->second.hash != hash_text(c.hash())) {
        FAIL_CHECK("the sample has changed" << remedy_of_op(op));
        break;
      }
      values += compare_op(c, found->second, options);
      runs += c.runs.size();
      ++cases;
      stored.erase(found);
    }
  }
  CHECK_MESSAGE(stored.empty(), stored.size() << " cases are no samples any more, " << stored.begin()->first
                                              << " among them; run jax_ops.py for their ops");
  MESSAGE(values << " values of " << runs << " runs of " << cases << " samples of " << ops << " ops held against JAX");
  CHECK(values > 100000);
}

TEST_CASE("every difference is of an op there is, and has a reason") {
  for (const Difference& difference : differences()) {
    CHECK_MESSAGE(ops::find_primitive(difference.op) != nullptr, difference.op);
    CHECK(difference.reason.size() > 10);
  }
}

}  // namespace lockstep::tests::golden
