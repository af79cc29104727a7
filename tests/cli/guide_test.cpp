#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cli/program.h"

// The commands of docs/guides/experiments.md, one after the other in one folder.
namespace lockstep::tests {

TEST_CASE("the commands of the guide to experiments do what it says") {
  const TemporaryFolder folder;
  const std::string program = std::filesystem::absolute(LOCKSTEP_PROGRAM).string();
  std::vector<Outcome> outcomes;
  bool in_block = false;
  for (const std::string& line : lines_of(file_text(LOCKSTEP_TESTS_DIR "/../docs/guides/experiments.md"))) {
    if (line.starts_with("```")) {
      in_block = line == "```sh";
    } else if (in_block) {
      CAPTURE(line);
      REQUIRE(line.starts_with("lockstep "));
      outcomes.push_back(run_shell("cd " + folder.path().string() + " && " + program + line.substr(8)));
      const std::string said = outcomes.back().err.empty() ? "" : outcomes.back().err[0];
      CAPTURE(said);
      CHECK(outcomes.back().code == (line.starts_with("lockstep compare") ? 1 : 0));
    }
  }
  REQUIRE(outcomes.size() == 11);
  const std::vector<std::string>& compared = outcomes[2].out;
  REQUIRE(compared.size() == 4);
  CHECK(compared[0] == "manifest: optimizer.momentum: 0.9 | 0.8");
  CHECK(compared[1].starts_with("metrics: first differ at step 4: "));
  CHECK(compared[2] == "bits: first differ at step 2 in 'optimizer/0/dense_0/bias'");
  for (const char* file :
       {"first/bits.csv", "first/report.html", "seeds/report.html", "momentum.html", "classes.csv"}) {
    CAPTURE(file);
    CHECK(std::filesystem::exists(folder.path() / "runs" / file));
  }
}

}  // namespace lockstep::tests
