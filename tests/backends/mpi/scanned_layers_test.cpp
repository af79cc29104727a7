#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/processes.h>

#include "tests/support/launcher.h"
#include "tests/support/scanned_training.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

constexpr int steps = 4;
constexpr const char* from = "LOCKSTEP_TEST_RESUME";  // a checkpoint after two steps, or nothing

}  // namespace

TEST_CASE("what each launched process trains") {
  if (!is_launched()) return;
  const TrainStep step = scanned_step(1);
  TrainState state = scanned_start(step);
  const char* folder = std::getenv(from);
  if (folder != nullptr) state = from_tree<TrainState>(checkpoint::restore(folder, to_tree(state)));
  state = trained_through(step, std::move(state), folder == nullptr ? 0 : 2, steps);
  std::printf("size %d trained %s.\n", world()->size(), fingerprint(to_tree(state)).c_str());
  world()->barrier();
}

TEST_CASE("layers in a scan, trained by 2 and 4 processes, from the start or resumed, have the bits of one") {
  if (is_launched()) return;
  if (const std::string reason = no_launcher(); !reason.empty()) {
    MESSAGE("skipped: " << reason);
    return;
  }
  const TemporaryFolder folder;
  const std::filesystem::path saved = folder.path() / "saved";
  const TrainStep step = scanned_step(2);
  const TrainState end = trained_through(step, scanned_start(step), 0, steps, [&](int i, const TrainState& state) {
    if (i == 1) checkpoint::save(saved, to_tree(state), {});
  });
  const std::string expected = fingerprint(to_tree(end));
  for (const int processes : {2, 4}) {
    for (const std::string& resume : {std::string(), std::string(from) + "='" + saved.string() + "' "}) {
      const std::string output = launched(processes, "what each launched process trains", resume);
      CAPTURE(output);
      CHECK(count(output, "size " + std::to_string(processes) + " trained " + expected + ".") ==
            static_cast<std::size_t>(processes));
      CHECK(count(output, "FAILURE") == 0);
    }
  }
}

}  // namespace lockstep::tests
