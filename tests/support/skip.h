// Test cases that cannot be made here: which, and why.
#pragma once

#include <string>

namespace lockstep::tests {

/// Records that the running test case, or the rest of it, is left out, and why: `if (!offers()) return skip("...")`. The
/// program prints all of them at its end, and exits with 77 where nothing else was left to do.
void skip(const std::string& reason);

}  // namespace lockstep::tests
