#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <lockstep/backend/backend.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "tests/support/forked.h"
#include "tests/support/resident_memory.h"

// What a process may do to itself: fork, and run out of memory.
using namespace lockstep;
using tests::forked;

TEST_CASE("without a launcher a program is process 0 of 1") {
  CHECK(world()->size() == 1);
  CHECK(world()->rank() == 0);
}

TEST_CASE("a processor that cannot be read for want of descriptors is an error, not an unknown one") {
  CHECK(machine_description().at("processor") != "");
  const int ended = forked([] {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 3;
    try {
      machine_description();
    } catch (const Error& error) {
      return std::string(error.what()).find("/proc/cpuinfo cannot be opened: Too many") != std::string::npos ? 0 : 2;
    }
    return 1;
  });
  CHECK(ended == 0);
}

// ThreadSanitizer ends a child that starts threads, and both sanitizers take more addresses than any limit leaves.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

Array megabytes(std::int64_t count) { return full({count * mebibyte / 4}, 1, float32); }

std::shared_ptr<backend::Buffer> mapped_memory(std::size_t bytes) {
  for (const auto& backend : backend::built_backends()) {
    if (auto buffer = backend->allocate(bytes, Device{})) return buffer;
  }
  throw std::runtime_error("no backend owns memory");
}

/// From here on this process gets so many bytes of addresses more.
void limit_memory(std::int64_t bytes) {
  const ::rlim_t limit = tests::address_bytes() + static_cast<::rlim_t>(bytes);
  const ::rlimit both{limit, limit};
  if (::setrlimit(RLIMIT_AS, &both) != 0) throw std::runtime_error("no limit");
}

}  // namespace

TEST_CASE("a child of fork computes on several devices as its parent did and does") {
  const Mesh mesh({{"batch", 4}}, devices("cpu:0-1"));
  const auto mapped = jit(pmap([](const Array& x) { return psum(sum(x, 0), {"batch"}); },
                               {.mesh = mesh, .in = {sharded("batch")}, .out = {replicated}}));
  const Array x = ones({8});
  CHECK(mapped(x).item<float>() == 8);
  CHECK(forked([&] { return static_cast<int>(mapped(x).item<float>()); }) == 8);
  CHECK(forked([&] { return static_cast<int>(mapped(ones({16})).item<float>()); }) == 16);
  CHECK(mapped(x).item<float>() == 8);
}

TEST_CASE("memory that is kept for reuse is released before an allocation fails") {
  const auto five_then_one = [] {
    limit_memory(768 * mebibyte);
    for (const std::int64_t size : {100, 120, 140, 155, 175}) static_cast<void>(megabytes(size));
    return megabytes(625).size() == 625 * mebibyte / 4 ? 1 : 0;
  };
  CHECK(forked(five_then_one, 100) == 1);
  const auto arenas = [] {
    const auto step = jit([](const Array& x) { return sum(sort(x * 2, 0) + cumsum(x, 0), 0); });
    limit_memory(768 * mebibyte);
    static_cast<void>(step(megabytes(75)));
    return megabytes(625).size() == 625 * mebibyte / 4 ? 1 : 0;
  };
  CHECK(forked(arenas, 100) == 1);
}

TEST_CASE("memory that is not to be had is a typed error, for small arrays too, and the process goes on") {
  const auto large = [] {
    limit_memory(1024 * mebibyte);
    try {
      megabytes(2500);
    } catch (const BackendError& error) {
      const bool says =
          std::string(error.what()).find("bytes asked for on cpu:0 are not to be had") != std::string::npos;
      return says && megabytes(100).size() == 100 * mebibyte / 4 ? 1 : 0;
    }
    return 0;
  };
  CHECK(forked(large, 100) == 1);
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{65536}}) {
    CAPTURE(bytes);
    const auto small = [bytes] {
      std::vector<std::shared_ptr<backend::Buffer>> held;
      held.reserve(std::size_t{1} << 20);
      limit_memory(64 * mebibyte);
      try {
        for (;;) held.push_back(mapped_memory(bytes));
      } catch (const BackendError&) {
        return held.size() > 100 ? 1 : 0;
      }
    };
    CHECK(forked(small, 100) == 1);
  }
}

#endif
