#include <cstring>
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

using Bytes = std::vector<std::byte>;

const std::string regenerate = "; regenerate the file as the head of tests/golden/functions/jax_lines.py says";

double bound(const Options& options, Way way, DType dtype) {
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

Compared compare(const Case& c, const Bytes& stored) {
  Compared compared;
  std::size_t at = sizeof(std::uint64_t);
  for (const Run& run : c.runs) {
    for (std::size_t i = 0; i < run.results.size(); ++i) {
      const ArrayType& type = run.results[i].type();
      const Bytes bytes = run.results[i].to_bytes();
      REQUIRE_MESSAGE(at + bytes.size() <= stored.size(), "the golden file is too short" << regenerate);
      auto given = ir::reference_from_bytes(type, bytes);
      const auto expected = ir::reference_from_bytes(type, std::span(stored).subspan(at, bytes.size()));
      leave_out_limits(c.line->options, expected, given);
      const std::int64_t place =
          golden::first_difference_within(given, expected, bound(c.line->options, run.way, type.dtype));
      if (place >= 0 && compared.difference.empty()) {
        compared.difference = std::string(name(run.way)) + ", result " + std::to_string(i) + " " + to_string(type) +
                              " element " + std::to_string(place) + ": " + golden::element_text(given, place) +
                              ", JAX has " + golden::element_text(expected, place);
      }
      at += bytes.size();
      compared.values += static_cast<std::size_t>(type.size());
    }
  }
  CHECK_MESSAGE(at == stored.size(), "the golden file has more results" << regenerate);
  return compared;
}

void check(const Case& c, const Bytes& stored, std::size_t& values) {
  const std::uint64_t hash = c.hash();
  if (std::memcmp(stored.data(), &hash, sizeof(hash)) != 0) {
    FAIL_CHECK("the line has changed" << regenerate);
    return;
  }
  const Compared compared = compare(c, stored);
  values += compared.values;
  CHECK_MESSAGE(compared.difference.empty(), compared.difference);
}

}  // namespace

TEST_CASE("every public function, its derivatives and batches have JAX's values") {
  std::map<std::string, Bytes> stored =
      golden::read_stored(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/functions/jax_lines.safetensors.gz");
  std::set<std::string_view> functions;
  std::size_t cases = 0, runs = 0, values = 0;
  for (const Place& place : places()) {
    INFO(place.line->function << " " << place.number << " of " << name(place.dtype) << ", " << place.line->jax);
    const Case c = case_of(place);
    const auto found = stored.find(c.name);
    if (found == stored.end()) {
      FAIL_CHECK("the golden file lacks it" << regenerate);
      continue;
    }
    check(c, found->second, values);
    functions.insert(place.line->function);
    runs += c.runs.size();
    ++cases;
    stored.erase(found);
  }
  CHECK_MESSAGE(stored.empty(), stored.size() << " cases are no lines any more, " << stored.begin()->first
                                              << " among them" << regenerate);
  MESSAGE(values << " values of " << runs << " runs of " << cases << " cases of " << functions.size()
                 << " functions held against JAX");
  CHECK(values > 20000);
}

}  // namespace lockstep::tests::functions
