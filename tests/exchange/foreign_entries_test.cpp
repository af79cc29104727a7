// Exported functions and archives take the place of regular files only: a device stays a device.
#include "tests/support/foreign_entries.h"

#include <filesystem>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

TEST_CASE("nothing is exported onto a device, a FIFO, a socket or through a link") {
  namespace fs = std::filesystem;
  const auto doubled = [](const Array& x) { return x * 2.0F; };
  for (const ForeignKind& kind : foreign_kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder folder, elsewhere;
    const fs::path path = folder.path() / "out", target = elsewhere.write("target", "of another");
    if (!kind.make(path, target)) continue;
    const fs::file_type before = fs::symlink_status(path).type();
    expect_error<CheckpointError>([&] { exchange::export_function(path, doubled, array({1.0F})); }, path.string(),
                                  kind.name);
    CHECK(fs::symlink_status(path).type() == before);
    CHECK(file_text(target) == "of another");
  }
  expect_error<CheckpointError>([&] { exchange::export_function("/dev/null", doubled, array({1.0F})); }, "/dev/null",
                                "it is a device");
  CHECK(fs::symlink_status("/dev/null").type() == fs::file_type::character);
}

}  // namespace lockstep::tests
