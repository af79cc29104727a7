#include <cstring>
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

using Bytes = std::vector<std::byte>;

const std::string regenerate = "; regenerate the file as the head of tests/golden/ops/jax_ops.py says";

std::vector<eval::HostArray> run(const Run& run, const compile::Options& options) {
  std::vector<eval::HostArray> arguments;
  for (const ir::ReferenceArray& input : run.inputs) {
    arguments.push_back(eval::host_array(input.type, ir::reference_to_bytes(input), *options.backends.back()));
  }
  return runtime::run(*compile::lower(run.function, options), arguments);
}

/// Compares a case's runs with what JAX gave; the count of values.
std::size_t compare(const Case& c, const Bytes& golden, const compile::Options& options) {
  std::size_t at = sizeof(std::uint64_t);
  std::size_t compared = 0;
  for (const Run& each : c.runs) {
    INFO(c.describe() << " " << each.label());
    const std::vector<eval::HostArray> results = run(each, options);
    for (std::size_t i = each.first; i < results.size(); ++i) {
      const Bytes bytes = eval::host_bytes(results[i]);
      REQUIRE_MESSAGE(at + bytes.size() <= golden.size(), "the golden file is too short" << regenerate);
      const ArrayType& type = results[i].type;
      const auto given = ir::reference_from_bytes(type, bytes);
      const auto expected = ir::reference_from_bytes(type, std::span(golden).subspan(at, bytes.size()));
      const std::int64_t place = first_difference_within(given, expected, bound(c.op->name, each.way, type.dtype));
      CHECK_MESSAGE(place == -1, "result " << i - each.first << " " << to_string(type) << " element " << place << ": "
                                           << element_text(given, std::max<std::int64_t>(place, 0)) << ", JAX has "
                                           << element_text(expected, std::max<std::int64_t>(place, 0)));
      at += bytes.size();
      compared += static_cast<std::size_t>(type.size());
    }
  }
  CHECK_MESSAGE(at == golden.size(), "the golden file has more results" << regenerate);
  return compared;
}

}  // namespace

TEST_CASE("every op, its derivatives and batches have JAX's values") {
  std::map<std::string, Bytes> golden =
      read_stored(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/ops/jax_ops.safetensors.gz");
  compile::Options options;
  options.backends = built_backends();
  options.verify = true;
  std::size_t ops = 0, cases = 0, runs = 0, values = 0;
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    const ir::Primitive& op = get();
    if (!compares_any(op.name)) continue;
    ++ops;
    for (const Case& c : cases_of(op)) {
      INFO(c.describe());
      const auto found = golden.find(c.name);
      if (found == golden.end()) {
        if (c.runs.empty()) continue;
        FAIL_CHECK("the golden file lacks it, and differences.cpp gives no reason" << regenerate);
        break;
      }
      const std::uint64_t hash = c.hash();
      if (std::memcmp(found->second.data(), &hash, sizeof(hash)) != 0) {
        FAIL_CHECK("the sample has changed" << regenerate);
        break;
      }
      values += compare(c, found->second, options);
      runs += c.runs.size();
      ++cases;
      golden.erase(found);
    }
  }
  CHECK_MESSAGE(golden.empty(), golden.size() << " cases are no samples any more, " << golden.begin()->first
                                              << " among them" << regenerate);
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
