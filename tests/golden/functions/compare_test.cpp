#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/golden/functions/cases.h"
#include "tests/golden/stored_values.h"

// Every public function's results, derivatives and batches against JAX 0.10.2. jax_lines.py says how to regenerate.
namespace lockstep::tests::functions {
namespace {

using golden::StoredCase;

/// What to run where a line's values are not there, or not those of its operands.
std::string remedy_of_line(const Line& line) {
  return "; run (with jax " + std::string(golden::jax_version) +
         " from PyPI): python tests/golden/functions/jax_lines.py <tests_golden> " + std::string(line.function);
}

double line_bound(const Options& options, Way way, DType dtype) {
  const bool wide = dtype == float64 || dtype == complex128;
  const double room = wide ? options.room.of_64 : options.room.of_32;
  const bool derivative = way == Way::vjp;
  const double usual = golden::bound(derivative, dtype);
  return usual == 0 ? 0 : std::max(usual, derivative ? 10 * room : room);
}

/// NaN and infinities where a line says that the limit stands there instead.
void leave_out_limits(const Options& options, const ir::ReferenceArray& expected, ir::ReferenceArray& given) {
  if (options.limits.empty() || !is_float(given.type.dtype)) return;
  for (std::size_t i = 0; i < given.floats().size(); ++i) {
    if (!std::isfinite(expected.floats()[i])) given.floats()[i] = expected.floats()[i];
  }
}

struct Compared {
  std::size_t values = 0;
  std::string difference;  ///< The first one.
};

Compared compare_line(const Case& c, const StoredCase& stored) {
  Compared compared;
  std::size_t at = 0;
  for (const Run& run : c.runs) {
    for (std::size_t i = 0; i < run.results.size(); ++i) {
      const ArrayType& type = run.results[i].type();
      REQUIRE_MESSAGE(at < stored.results.size(), "results are missing" << remedy_of_line(*c.line));
      auto given = ir::reference_from_bytes(type, run.results[i].to_bytes());
      const auto expected = golden::values_of(stored.results[at++], name(run.way), type);
      leave_out_limits(c.line->options, expected, given);
      const std::int64_t place =
          golden::first_difference_within(given, expected, line_bound(c.line->options, run.way, type.dtype));
      if (place >= 0 && compared.difference.empty()) {
        compared.difference = std::string(name(run.way)) + ", result " + std::to_string(i) + " " + to_string(type) +
                              " element " + std::to_string(place) + ": " + golden::element_text(given, place) +
                              ", JAX has " + golden::element_text(expected, place);
      }
      compared.values += static_cast<std::size_t>(type.size());
    }
  }
  CHECK_MESSAGE(at == stored.results.size(), "there are more results" << remedy_of_line(*c.line));
  return compared;
}

void check_line(const Case& c, const StoredCase& stored, std::size_t& values) {
  if (stored.hash != golden::hash_text(c.hash())) {
    FAIL_CHECK("the line has changed" << remedy_of_line(*c.line));
    return;
  }
  const Compared compared = compare_line(c, stored);
  values += compared.values;
  CHECK_MESSAGE(compared.difference.empty(), compared.difference);
}

}  // namespace

TEST_CASE("every public function, its derivatives and batches have JAX's values") {
  std::map<std::string, StoredCase> stored =
      golden::read_stored(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/functions/jax");
  std::set<std::string_view> functions;
  std::size_t cases = 0, runs = 0, values = 0;
  for (const Place& place : places()) {
    INFO(place.line->function << " " << place.number << " of " << name(place.dtype) << ", " << place.line->jax);
    const Case c = case_of(place);
    const auto found = stored.find(c.name);
    if (found == stored.end()) {
      FAIL_CHECK("JAX's values are missing" << remedy_of_line(*place.line));
      continue;
    }
    check_line(c, found->second, values);
    functions.insert(place.line->function);
    runs += c.runs.size();
    ++cases;
    stored.erase(found);
  }
  CHECK_MESSAGE(stored.empty(), stored.size() << " cases are no lines any more, " << stored.begin()->first
                                              << " among them; run jax_lines.py for their functions");
  MESSAGE(values << " values of " << runs << " runs of " << cases << " cases of " << functions.size()
                 << " functions held against JAX");
  CHECK(values > 20000);
}

}  // namespace lockstep::tests::functions
