#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

// docs/losses.md has a row for every public loss and metric, and for nothing else.
namespace lockstep::tests::losses {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / ".." / path);
  REQUIRE_MESSAGE(file.good(), path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void add_found(std::set<std::string>& names, const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) names.insert((*it)[1]);
}

}  // namespace

TEST_CASE("the page of losses has every loss and metric") {
  std::set<std::string> declared, rows;
  for (const char* header : {"losses_classification", "losses_regression", "losses_similarity", "losses_sequence",
                             "metrics", "metrics_classification", "metrics_regression", "metrics_threshold"}) {
    add_found(declared, text_of("include/lockstep/" + std::string(header) + ".h"),
              "\nLOCKSTEP_API (?:Weighted|Array) (\\w+)\\(");
  }
  for (const char* part : {"value", "merged"}) declared.erase(part);  // of metrics, and none themselves
  add_found(rows, text_of("docs/losses.md"), "\n\\| `(\\w+)` \\|");
  for (const std::string& name : declared) CHECK_MESSAGE(rows.contains(name), name << " has no row in docs/losses.md");
  for (const std::string& name : rows) CHECK_MESSAGE(declared.contains(name), name << " has a row, but is not public");
  CHECK(declared.size() > 50);
}

}  // namespace lockstep::tests::losses
