#include "engine/core/environment.h"

#include <cstdlib>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/support/expect_error.h"

namespace lockstep {

using tests::contains;
using tests::error_text;

TEST_CASE("a switch in the environment is on, off or an error; without one, the default") {
  const char* name = "LOCKSTEP_TESTED_SWITCH";
  struct Row {
    const char* text;
    bool on;
  };
  for (const Row& row : {Row{"1", true},
                         {"true", true},
                         {"on", true},
                         {"yes", true},
                         {"0", false},
                         {"false", false},
                         {"off", false},
                         {"no", false}}) {
    CAPTURE(row.text);
    ::setenv(name, row.text, 1);
    CHECK(environment_flag(name, !row.on) == row.on);
  }
  for (const char* text : {"maybe", "2", "-1", "TRUE ", "00"}) {
    CAPTURE(text);
    ::setenv(name, text, 1);
    const std::string message = error_text<ValueError>([&] { environment_flag(name, true); });
    CHECK(contains(message, std::string(name) + "=" + text));
    CHECK(contains(message, "write 1 or 0"));
  }
  ::setenv(name, "", 1);
  CHECK(environment_flag(name, true));
  CHECK_FALSE(environment_flag(name, false));
  ::unsetenv(name);
  CHECK(environment_flag(name, true));
  CHECK_FALSE(environment_flag(name, false));
}

TEST_CASE("a number in the environment is digits alone, or an error; without one, the default") {
  const char* name = "LOCKSTEP_TESTED_COUNT";
  ::setenv(name, "0", 1);
  CHECK(environment_count(name, 7) == 0);
  ::setenv(name, "1048576", 1);
  CHECK(environment_count(name, 7) == 1048576);
  for (const char* text : {"many", "-1", "1 ", "1.5", "1M", "99999999999999999999"}) {
    CAPTURE(text);
    ::setenv(name, text, 1);
    const std::string message = error_text<ValueError>([&] { environment_count(name, 7); });
    CHECK(contains(message, std::string(name) + "=" + text));
    CHECK(contains(message, "write digits alone"));
  }
  ::setenv(name, "", 1);
  CHECK(environment_count(name, 7) == 7);
  ::unsetenv(name);
  CHECK(environment_count(name, 7) == 7);
}

}  // namespace lockstep
