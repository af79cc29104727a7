// Where the flight recorder writes: to a name that nobody can tell before, so that no link waits there.
#include "engine/processes/flight_recorder.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

TEST_CASE("the flight recorder's name cannot be told before, and its file is this user's only") {
  const TemporaryFolder folder, elsewhere;
  const std::filesystem::path target = elsewhere.write("target", "of another");
  std::filesystem::create_symlink(  // as it was named once
      target, folder.path() / ("lockstep-flight-0-" + std::to_string(::getpid()) + ".txt"));
  const processes::FlightRecorder recorder;
  const std::string first = recorder.write({folder.path()}, 0, "a reason");
  const std::string second = recorder.write({folder.path()}, 0, "a reason");
  CHECK(first != second);
  CHECK(file_text(target) == "of another");
  const std::filesystem::path written = first.substr(first.find(folder.path().string()));
  CHECK(file_text(written).starts_with("a reason\n"));
  CHECK(std::filesystem::status(written).permissions() == std::filesystem::perms(0600));
}

}  // namespace lockstep::tests
