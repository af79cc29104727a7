#include "tests/support/page_rules.h"

#ifdef LOCKSTEP_HAS_PAGE_RULES

#include <cstdlib>
#include <string>
#include <vector>

#include <lockstep/backend/isa.h>

#include "tests/cli/program.h"
#include "tests/support/skip.h"

namespace lockstep::tests {

TEST_CASE("where nothing that was written may be executed, training says so once and has one meaning still") {
  if (backend::usable_isa() == backend::Isa::none) return skip("no machine code is made without vector instructions");
  const SmallData data;
  std::vector<std::string> fingerprints;
  for (const char* const devices : {"1", "2"}) {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "out").string(), err = (folder.path() / "err").string();
    const std::string command = LOCKSTEP_PROGRAM " train --model cnn --batch 32 --steps 2 --shards 2 --devices " +
                                std::string(devices) + data.option() + " --run " + (folder.path() / "run").string() +
                                " >" + out + " 2>" + err;
    CHECK(under_page_rules(PROT_EXEC, [&] { return WEXITSTATUS(std::system(command.c_str())); }) == 0);
    const std::vector<std::string> said = lines_of(file_text(err));
    REQUIRE(said.size() == 2);
    for (const std::string& line : said) {
      CHECK(line.find("backend: the system lets no page be executed that was written") != std::string::npos);
    }
    fingerprints.push_back(lines_of(file_text(out)).back());
    CHECK(fingerprints.back().starts_with("fingerprint "));
  }
  CHECK(fingerprints[0] == fingerprints[1]);
}

}  // namespace lockstep::tests

#endif
