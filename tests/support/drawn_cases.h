// How many of its drawn cases a test takes.
#pragma once

#include <cstdlib>

#include <doctest/doctest.h>

namespace lockstep::tests {

/// Of test cases whose number of drawn cases depends on this: `TEST_CASE("..." * drawn_suite)`.
inline const doctest::test_suite drawn_suite("drawn");

/// Whether the long tests run: everything is tried.
inline bool tries_all() { return std::getenv("LOCKSTEP_ALL_CASES") != nullptr; }

/// How many of so many cases a test takes: all of them in the long tests, else half. A quarter where a sanitizer is in, under
/// which each takes ten times as long.
inline int drawn_cases(int all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (all + 3) / 4;
#else
  return tries_all() ? all : (all + 1) / 2;
#endif
}

}  // namespace lockstep::tests
