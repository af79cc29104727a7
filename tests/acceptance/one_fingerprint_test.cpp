#include <string>

#include <doctest/doctest.h>

#include "tests/support/expect_error.h"
#include "tests/support/spread_training.h"

// The short form of tests/soak/one_fingerprint_test.cpp: fewer steps, fewer ways to spread them.
namespace lockstep::tests {

TEST_CASE("what each launched process trains of the small models") { train_launched(); }

TEST_CASE("8 shards over devices and processes train to one fingerprint a model") {
  if (is_launched()) return;
  const std::string expected = trained_lines({.devices = 1});
  for (const int devices : {2, 8}) CHECK(trained_lines({.devices = devices}) == expected);
  if (const std::string reason = no_launcher(); !reason.empty()) {
    MESSAGE("skipped: " << reason);
    return;
  }
  for (const auto& [devices, processes] : {std::pair(1, 2), {2, 2}, {2, 4}}) {
    check_in_processes(processes, {.devices = devices}, "what each launched process trains of the small models",
                       expected);
  }
}

TEST_CASE("more devices than shards are refused by number, in one process and in several") {
  const int processes = world()->size();
  const SpreadModel mlp = spread_models().front();
  const Spread spread{.devices = 16 / processes, .steps = 1};
  const std::string text = error_text<MeshError>([&] { static_cast<void>(trained_fingerprint(mlp, spread, 1)); });
  CHECK_MESSAGE(contains(text, "8 shards"), text);
  CHECK_MESSAGE(contains(text, std::to_string(spread.devices) + " devices"), text);
  if (is_launched() || !no_launcher().empty()) return;
  const std::string output =
      launched(2, "more devices than shards are refused by number, in one process and in several");
  CAPTURE(output);
  CHECK(count(output, "SUCCESS!") == 2);
}

}  // namespace lockstep::tests
