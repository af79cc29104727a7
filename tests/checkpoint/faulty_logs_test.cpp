// Logs whose last bytes do not come to the disk: the error of a close is told.
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/callbacks.h>
#include <lockstep/error.h>
#include <lockstep/trainer.h>

#include "tests/checkpoint/faulty_disk.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

TEST_CASE("a log that cannot be closed is an error that names it, and is closed all the same") {
  const TemporaryFolder folder;
  struct Logger {
    std::shared_ptr<Callback> callback;
    std::string text;
  };
  const auto path = [&](const char* name) { return folder.path() / name; };
  const std::vector<Logger> loggers = {
      {std::make_shared<callbacks::CsvLogger>(path("a.csv")), "a.csv cannot be closed: No space left on device"},
      {std::make_shared<callbacks::JsonLinesLogger>(path("b.jsonl")),
       "b.jsonl cannot be closed: No space left on device"},
      {std::make_shared<callbacks::BitTrace>(path("c.csv")), "c.csv cannot be closed: No space left on device"},
      {std::make_shared<callbacks::TensorBoard>(path("events")), " cannot be closed: No space left on device"},
  };
  for (const Logger& logger : loggers) {
    CAPTURE(logger.text);
    logger.callback->on_begin({}, Tree());
    const FaultyDisk disk(FaultyDisk::Call::close, 0, ENOSPC);
    CHECK_THROWS_WITH_AS(logger.callback->close(), doctest::Contains(logger.text.c_str()), CheckpointError);
    CHECK(FaultyDisk::has_failed());
    logger.callback->close();
  }
}

}  // namespace lockstep::tests
