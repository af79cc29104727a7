#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/processes.h>

#include "tests/support/bits_of_one.h"
#include "tests/support/launcher.h"
#include "tests/support/scanned_training.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

constexpr int steps = 4;
constexpr const char* from = "LOCKSTEP_TEST_RESUME";  // a checkpoint after two steps, or nothing

}  // namespace

TEST_CASE("what each launched process trains" * doctest::skip()) {
  const TrainStep step = scanned_step(1);
  TrainState state = scanned_start(step);
  const char* folder = std::getenv(from);
  if (folder != nullptr) state = from_tree<TrainState>(checkpoint::restore(folder, to_tree(state)));
  state = trained_through(step, std::move(state), folder == nullptr ? 0 : 2, steps);
  say_bits(fingerprint(to_tree(state)));
}

TEST_CASE("layers in a scan, trained by 2 and 4 processes, from the start or resumed, have the bits of one") {
  if (!can_launch()) return skip(no_launcher());
  const TemporaryFolder folder;
  const std::filesystem::path saved = folder.path() / "saved";
  const TrainStep step = scanned_step(2);
  const TrainState end = trained_through(step, scanned_start(step), 0, steps, [&](int i, const TrainState& state) {
    if (i == 1) checkpoint::save(saved, to_tree(state), {});
  });
  const std::string expected = fingerprint(to_tree(end));
  for (const std::string& resume : {std::string(), std::string(from) + "='" + saved.string() + "' "}) {
    CAPTURE(resume);
    check_bits_of_one("what each launched process trains", expected, resume);
  }
}

}  // namespace lockstep::tests
