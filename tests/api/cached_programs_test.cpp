// The limit of compiled programs that are kept.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/launcher.h"

// Compiled programs are let go where a limit says so, and made again where they are needed.

namespace lockstep::tests {

TEST_CASE("what a process with few cached programs does" * doctest::skip()) {
  const auto f = jit([](const Array& x) { return sin(x) * 2.0F; });
  const auto call = [&](std::int64_t n) {
    CHECK(f(ones({n})).to_vector<float>() == (sin(ones({n})) * 2.0F).to_vector<float>());
  };
  for (std::int64_t n = 1; n <= 20; ++n) call(n);
  CHECK(f.traces() == 20);
  call(20);
  CHECK(f.traces() == 20);  // one of those that are kept
  call(1);
  CHECK(f.traces() == 21);
  for (std::int64_t n = 1; n <= 10; ++n) call(1), call(20 + n);
  CHECK(f.traces() == 31);  // what is called again stays
  std::printf("programs were let go\n");
}

TEST_CASE("what eight threads with few cached programs do" * doctest::skip()) {
  const auto f = [](const Array& x) { return sum(sin(x) * 2.0F); };
  const auto value = jit(f);
  const auto slope = jit(grad(f));
  std::vector<int> same(8, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 12; ++i) {
        const Array x = full({static_cast<std::int64_t>((t + i) % 6) + 1}, 0.1 * static_cast<double>(t));
        same[t] += value(x).to_bytes() == f(x).to_bytes() ? 1 : 0;
        same[t] += slope(x).to_bytes() == grad(f)(x).to_bytes() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::vector<int>(8, 24));
  CHECK(value.traces() > 6);  // some were let go and made again
  std::printf("programs were let go\n");
}

TEST_CASE("programs are let go while other threads run them") {
  const std::string run = run_of_case("what eight threads with few cached programs do") + " 2>&1";
  for (const char* limit : {"1", "3"}) {
    const std::string few = output_of("LOCKSTEP_CACHED_PROGRAMS=" + std::string(limit) + " " + run);
    CAPTURE(few);
    CHECK(contains(few, "programs were let go"));
    CHECK(contains(few, "SUCCESS"));
  }
}

TEST_CASE("LOCKSTEP_CACHED_PROGRAMS limits what a jitted function keeps") {
  const std::string run = run_of_case("what a process with few cached programs does") + " 2>&1";
  const std::string few = output_of("LOCKSTEP_CACHED_PROGRAMS=8 " + run);
  CAPTURE(few);
  CHECK(contains(few, "programs were let go"));
  CHECK(contains(few, "SUCCESS"));
  CHECK(contains(output_of("LOCKSTEP_CACHED_PROGRAMS=many " + run), "LOCKSTEP_CACHED_PROGRAMS"));
}

}  // namespace lockstep::tests
