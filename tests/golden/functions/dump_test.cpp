#include <cstdlib>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "tests/golden/functions/cases.h"
#include "tests/golden/stored_values.h"

// What jax_lines.py reads: all cases with their operands, as JSON.
namespace lockstep::tests::functions {
namespace {

using nlohmann::json;

json line_type_json(const Array& array) {
  return {{"dtype", name(array.dtype())}, {"shape", array.shape().to_vector()}, {"type", to_string(array.type())}};
}

json line_run_json(const Run& run) {
  json inputs = json::array(), results = json::array();
  for (const Array& input : run.inputs) {
    inputs.push_back(line_type_json(input));
    inputs.back()["hex"] = golden::hex(input.to_bytes());
  }
  for (const Array& result : run.results) results.push_back(line_type_json(result));
  return {{"way", name(run.way)}, {"inputs", inputs}, {"results", results}};
}

}  // namespace

TEST_CASE("write the lines of every function for jax_lines.py to LOCKSTEP_DUMP" * doctest::skip()) {
  const char* path = std::getenv("LOCKSTEP_DUMP");
  REQUIRE_MESSAGE(path != nullptr, "set LOCKSTEP_DUMP to the file to write");
  json cases = json::array();
  for (const Place& place : places()) {
    INFO(place.line->function << " " << place.line->jax << " of " << name(place.dtype));
    try {
      const Case c = case_of(place);
      json runs = json::array();
      for (const Run& run : c.runs) runs.push_back(line_run_json(run));
      cases.push_back({{"name", c.name},
                       {"function", c.line->function},
                       {"family", c.line->family},
                       {"jax", c.line->jax},
                       {"dtype", name(c.dtype)},
                       {"operands", c.line->inputs.size()},
                       {"active", c.active},
                       {"hash", golden::hash_text(c.hash())},
                       {"runs", runs}});
    } catch (const Error& error) {  // The lines that do not work are all named.
      FAIL_CHECK(std::string(error.what()));
    }
  }
  std::ofstream file(path);
  file << cases.dump() << '\n';
  REQUIRE(file.good());
}

}  // namespace lockstep::tests::functions
