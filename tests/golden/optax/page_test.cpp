#include <regex>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/golden/page_names.h"

// docs/optimizers.md has a row for every public transformation and schedule, and for nothing else.
namespace lockstep::tests::optax {
namespace {

/// Every function declared to give a `result`.
std::set<std::string> declared(const std::string& result, const std::string& header) {
  const std::string text = text_of("include/lockstep/" + header + ".h");
  const std::regex declaration("LOCKSTEP_API " + result + "\\s+(\\w+)\\(");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) names.insert((*it)[1]);
  return names;
}

std::set<std::string> page_rows() {
  const std::string text = text_of("docs/optimizers.md");
  const std::regex row("\\n\\| `(\\w+)` \\|");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    CHECK_MESSAGE(names.insert((*it)[1]).second, std::string((*it)[1]) << " has two rows");
  }
  return names;
}

}  // namespace

TEST_CASE("the page has every optimizer, transformation and schedule") {
  std::set<std::string> expected = declared("Schedule", "schedules");
  for (const char* header : {"optim", "optimizers", "optimizer_wrappers", "gradient_transformations",
                             "optim_contrib/optimizers", "optim_contrib/second_order"}) {
    expected.merge(declared("GradientTransformation", header));
  }
  const std::set<std::string> given = page_rows();
  for (const std::string& name : expected)
    CHECK_MESSAGE(given.contains(name), name << " has no row in docs/optimizers.md");
  for (const std::string& name : given) CHECK_MESSAGE(expected.contains(name), name << " has a row, but is not public");
  CHECK(expected.size() > 90);
}

}  // namespace lockstep::tests::optax
