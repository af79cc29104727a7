#include <string>

#include <doctest/doctest.h>

#include "tests/support/spread_training.h"

// V shards train to the same bits, however devices and processes share them.
namespace lockstep::tests {
namespace {

constexpr const char* launched_case = "what each launched process trains for long";

}  // namespace

TEST_CASE("what each launched process trains for long" * doctest::skip()) { train_launched(); }

TEST_CASE("100 steps over every pair of devices and processes end with one fingerprint a model") {
  const std::string expected = trained_lines({.devices = 1, .steps = 100});
  for (const int devices : {2, 4, 8}) {
    CAPTURE(devices);
    CHECK(trained_lines({.devices = devices, .steps = 100}) == expected);
  }
  if (!can_launch()) return skip(no_launcher());
  for (const int processes : {2, 4}) {
    for (int devices = 1; devices * processes <= 8; devices *= 2) {
      check_in_processes(processes, {.devices = devices, .steps = 100}, launched_case, expected);
    }
  }
}

TEST_CASE("32 shards over 8 devices in each of 4 processes end with the fingerprint of one device") {
  if (!can_launch()) return skip(no_launcher());
  const Spread one{.shards = 32, .devices = 1, .steps = 10};
  check_in_processes(4, {.shards = 32, .devices = 8, .steps = 10}, launched_case, trained_lines(one));
}

}  // namespace lockstep::tests
