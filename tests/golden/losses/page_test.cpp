#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/golden/page_names.h"

// docs/losses.md has a row for every public loss and metric, and for nothing else.
namespace lockstep::tests::losses {
namespace {}  // namespace

TEST_CASE("the page of losses has every loss and metric") {
  std::set<std::string> declared, rows;
  for (const char* header : {"losses_classification", "losses_regression", "losses_similarity", "losses_sequence",
                             "metrics", "metrics_classification", "metrics_regression", "metrics_threshold"}) {
    add_found(declared, text_of("include/lockstep/" + std::string(header) + ".h"),
              "\nLOCKSTEP_API (?:Weighted|Array) (\\w+)\\(");
  }
  for (const char* part : {"value", "local_value", "merged"}) declared.erase(part);  // of metrics, and none themselves
  add_found(rows, text_of("docs/losses.md"), "\n\\| `(\\w+)` \\|");
  for (const std::string& name : declared) CHECK_MESSAGE(rows.contains(name), name << " has no row in docs/losses.md");
  for (const std::string& name : rows) CHECK_MESSAGE(declared.contains(name), name << " has a row, but is not public");
  CHECK(declared.size() > 50);
}

}  // namespace lockstep::tests::losses
