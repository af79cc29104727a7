#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/processes.h>

#include "tests/support/at_once.h"
#include "tests/support/launcher.h"

// What launched processes compute has the bits that one process computes.
namespace lockstep::tests {

/// Of a launched process, which then waits for the others.
inline void say_bits(const std::string& bits) {
  std::printf("size %d has %s.\n", world()->size(), bits.c_str());
  world()->barrier();
}

/// Each of 2 and of 4 processes that run the test case, under these settings, says the bits of `expected`, and none fails.
inline void check_bits_of_one(const std::string& test_case, const std::string& expected,
                              const std::string& settings = {}) {
  std::array<std::string, 2> outputs;
  for_each_at_once(2, 2, [&](std::size_t i) { outputs[i] = launched(i == 0 ? 2 : 4, test_case, settings); });
  for (const int processes : {2, 4}) {
    const std::string& output = outputs[processes == 2 ? 0 : 1];
    CAPTURE(output);
    CHECK(count(output, "size " + std::to_string(processes) + " has " + expected + ".") ==
          static_cast<std::size_t>(processes));
    CHECK(count(output, "FAILURE") == 0);
  }
}

}  // namespace lockstep::tests
