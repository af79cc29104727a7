#include "engine/api/inspection/dump.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "engine/api/transforms/runtime.h"
#include "engine/ir/text/parse.h"
#include "engine/ops/primitives.h"
#include "engine/passes/pass.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;

TEST_CASE("what becomes of a function is written stage by stage") {
  const tests::TemporaryFolder folder;
  const std::string text =
      "{ lambda a:f32[3].\n    let b:f32[3] = sin a\n        c:f32[3] = sin a\n"
      "        d:f32[3] = add b c\n    in (d,) }";
  const ir::FunctionPtr f = ir::parse(text, ops::find_primitive);
  const auto executable = api::compiled(f);
  api::dump_stages(folder.path() / "ir", *f, *executable);
  api::dump_stages(folder.path() / "ir", *f, *executable);
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path() / "ir"), {}) == 1);
  const auto own = std::filesystem::directory_iterator(folder.path() / "ir")->path();
  const auto read = [&](const std::string& name) {
    std::ifstream in(own / name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto behind = [&](std::string_view pass) {
    const auto& passes = passes::pipeline();
    const auto found = std::ranges::find(passes, pass, &passes::Pass::name);
    return read(std::to_string(found - passes.begin() + 1) + "-" + std::string(pass) + ".txt");
  };
  CHECK(read("0-traced.txt") == f->print(0) + "\n");
  CHECK(behind("cse").find("add b b") != std::string::npos);
  CHECK(read("plan.txt").find("= add f32[3]") != std::string::npos);
}
