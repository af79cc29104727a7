#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "tests/cli/program.h"

using namespace lockstep::tests;

// What the environment variables of generated code may change, and what not.

namespace {

/// The last line of a few steps with `variable` set.
std::string fingerprint_with(const std::string& variable, const std::string& options) {
  static const SmallData data;
  const TemporaryFolder folder;
  const Outcome outcome = run_shell("env " + variable + " " LOCKSTEP_PROGRAM " train --batch 16 --shards 4 --steps 3" +
                                    data.option() + " --run " + (folder.path() / "run").string() + " " + options);
  const std::string error = outcome.err.empty() ? "" : outcome.err[0];
  CAPTURE(error);
  REQUIRE(outcome.code == 0);
  REQUIRE(outcome.out.back().starts_with("fingerprint "));
  return outcome.out.back();
}

}  // namespace

TEST_CASE("fused and not, training has the same bits") {
  for (const std::string model : {"cnn", "resnet20", "vit", "lstm"}) {
    CAPTURE(model);
    const std::string options = "--devices 2 --model " + model;
    CHECK(fingerprint_with("LOCKSTEP_FUSE=1", options) == fingerprint_with("LOCKSTEP_FUSE=0", options));
  }
}

TEST_CASE("under every cap of the instructions, training has the same bits on 1 and 4 devices") {
  for (const std::string isa : {"avx512", "avx2", "none"}) {
    CAPTURE(isa);
    for (const std::string model : {"cnn", "lstm"}) {
      CAPTURE(model);
      const auto on = [&](const char* devices) {
        return fingerprint_with("LOCKSTEP_MAX_ISA=" + isa, "--model " + model + " --devices " + devices);
      };
      CHECK(on("1") == on("4"));
    }
  }
}
