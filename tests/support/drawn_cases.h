#pragma once

namespace lockstep::tests {

/// How many of so many cases a test takes: a quarter of them where a sanitizer is in, under which each takes ten times as
/// long. Their bits are compared by the builds without one.
constexpr int drawn_cases(int all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (all + 3) / 4;
#else
  return all;
#endif
}

}  // namespace lockstep::tests
