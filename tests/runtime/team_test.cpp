#include "engine/runtime/team.h"

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/support/forked.h"

namespace lockstep::tests {
namespace {

/// Counts how often a thread entered and left it.
class CountingBackend final : public backend::Backend {
 public:
  std::string_view name() const override { return "counting"; }
  bool supports(DeviceKind) const override { return true; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest&) const override { return nullptr; }
  std::shared_ptr<backend::Buffer> allocate(std::size_t, Device) const override { return nullptr; }
  std::shared_ptr<void> enter_thread() const override {
    ++entered;
    return {nullptr, [this](void*) { ++left; }};
  }
  mutable std::atomic<int> entered{0};
  mutable std::atomic<int> left{0};
};

/// Of all threads of this process.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

TEST_CASE("devices meet at the barrier, more of them than cores too") {
  for (int devices : {1, 2, 4, 2 * static_cast<int>(std::thread::hardware_concurrency()) + 1}) {
    CAPTURE(devices);
    runtime::Team team(devices, {});
    std::vector<int> turn(static_cast<std::size_t>(devices), 0);
    std::atomic<int> apart{0};
    team.run([&](int device) {
      for (int i = 1; i <= 1000; ++i) {
        turn[static_cast<std::size_t>(device)] = i;
        team.barrier().arrive_and_wait();
        for (int other : turn) apart += other == i ? 0 : 1;
        team.barrier().arrive_and_wait();
      }
    });
    CHECK(apart == 0);
  }
}

TEST_CASE("who waits sleeps: for another device's work, and between tasks") {
  for (int devices : {2, 4 * static_cast<int>(std::thread::hardware_concurrency())}) {
    CAPTURE(devices);
    runtime::Team team(devices, {});
    const double before = processor_seconds();
    team.run([&](int device) {
      if (device == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      team.barrier().arrive_and_wait();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    // One thread that spins would use 0.2 s, or 0.1 s between tasks.
    CHECK(processor_seconds() - before < 0.05);
  }
}

TEST_CASE("an exception of any device reaches the caller and the team lives on") {
  runtime::Team team(3, {});
  for (int failing = 0; failing < 3; ++failing) {
    const std::function<void(int)> task = [&](int device) {
      if (device == failing) throw std::runtime_error("device " + std::to_string(device));
    };
    CHECK_THROWS_WITH_AS(team.run(task), ("device " + std::to_string(failing)).c_str(), std::runtime_error);
    std::atomic<int> ran{0};
    team.run([&](int) { ++ran; });
    CHECK(ran == 3);
  }
}

TEST_CASE("every worker enters the backends once and leaves them at its end") {
  const auto backend = std::make_shared<CountingBackend>();
  {
    runtime::Team team(4, {backend});
    for (int i = 0; i < 5; ++i) team.run([](int) {});
    CHECK(backend->entered == 3);  // the caller enters for itself
    CHECK(backend->left == 0);
  }
  CHECK(backend->left == 3);
}

#if !defined(__SANITIZE_THREAD__)  // ThreadSanitizer ends a child that starts threads

namespace {

/// Threads of this process that ran a task of a leased team.
int ran(int devices) {
  std::atomic<int> count{0};
  runtime::TeamLease lease(devices, {});
  lease.team().run([&](int) {
    lease.team().barrier().arrive_and_wait();
    ++count;
  });
  return count;
}

}  // namespace

TEST_CASE("a child of fork has teams of its own, and its parent keeps the old ones") {
  CHECK(ran(3) == 3);
  CHECK(forked([] { return ran(3) + 10 * ran(3); }) == 33);
  CHECK(forked([] { return ran(3) + 10 * forked([] { return ran(3); }); }) == 33);
  CHECK(ran(3) == 3);
}

TEST_CASE("a child of fork ends as its parent does: nobody joins threads that it lacks") {
  CHECK(ran(3) == 3);
  const auto ends = [] {
    auto team = std::make_unique<runtime::Team>(2, std::vector<std::shared_ptr<const backend::Backend>>());
    return forked([&] {
      team.reset();
      return team == nullptr ? 7 : 8;
    });
  };
  CHECK(ends() == 7);
}

TEST_CASE("a process forked within a task is told so instead of waiting for threads it lacks") {
  runtime::Team team(2, {});
  std::atomic<int> status{-2};
  team.run([&](int device) {
    if (device != 0) return;
    const ::pid_t process = ::fork();
    if (process != 0) {
      int ended = 0;
      static_cast<void>(::waitpid(process, &ended, 0));
      status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
      return;
    }
    ::alarm(20);
    try {
      team.run([](int) {});
    } catch (const MeshError& error) {
      ::_exit(std::string(error.what()).find("forked the process while it ran on 2 devices") == std::string::npos);
    }
    ::_exit(2);
  });
  CHECK(status == 0);
}

#endif

TEST_CASE("teams are leased and used again") {
  const auto backend = std::make_shared<CountingBackend>();
  for (int i = 0; i < 10; ++i) {
    runtime::TeamLease lease(2, {backend});
    lease.team().run([](int) {});
  }
  CHECK(backend->entered == 1);
}

}  // namespace lockstep::tests
