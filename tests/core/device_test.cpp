#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/types.h>

#include "tests/support/expect_error.h"

namespace lockstep {

using tests::contains;
using tests::error_text;

namespace {

std::string listed(std::string_view text) {
  std::string result;
  for (const Device& device : devices(text)) result += to_string(device) + " ";
  return result;
}

}  // namespace

TEST_CASE("device lists") {
  CHECK(listed("cpu:0") == "cpu:0 ");
  CHECK(listed("cpu:0-3") == "cpu:0 cpu:1 cpu:2 cpu:3 ");
  CHECK(listed("cpu:0,2") == "cpu:0 cpu:2 ");
  CHECK(listed("cpu:4,0-1") == "cpu:4 cpu:0 cpu:1 ");
}

TEST_CASE("devices that this build has no backend for are refused") {
  for (const char* text : {"cuda:0", "cuda:1", "cuda:0-3", "cuda:2,0"}) {
    CAPTURE(text);
    const std::string message = error_text<MeshError>([&] { devices(text); });
    CHECK(contains(message, "this build has no backend for cuda:"));
    CHECK(contains(message, "write for example \"cpu:0-3\""));
  }
}

TEST_CASE("device lists that make no sense") {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"", "expected cpu or cuda, got \"\""},
      {"gpu:0", "expected cpu or cuda, got \"gpu\""},
      {"cpu", "expected ':' and device numbers"},
      {"cpu:", "expected a device number or a range of them, got \"\""},
      {"cpu:x", "got \"x\""},
      {"cpu:3-1", "got \"3-1\""},
      {"cpu:-1", "got \"-1\""},
      {"cpu:1-", "got \"1-\""},
      {"cpu:0,", "got \"\""},
      {"cpu:0 ", "got \"0 \""},
      {"cpu:0-99999999", "got \"0-99999999\""},
      {"cpu:0-2,1", "cpu:1 is named twice"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const std::string message = error_text<MeshError>([&] { devices(c.text); });
    CHECK(contains(message, c.message));
    CHECK(contains(message, "write for example \"cpu:0-3\" or \"cpu:0,2\""));
  }
}

}  // namespace lockstep
