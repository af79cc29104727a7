// The end of a process at odd moments, and a debug sink that prints through itself.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/rows.h"

namespace lockstep::tests {
namespace {

Array doubled_on_jit(float x) {
  static const auto& doubled = *new auto(jit([](const Array& v) { return v + v; }));
  return doubled(array(x));
}

data::SourcePtr numbered_rows(std::int64_t rows) {
  return data::generated(rows, [](std::int64_t i, const data::RowKey&) {
    return data::Row{{"x", data::host_table(std::vector<std::int64_t>{i}, Shape{})}};
  });
}

/// Computes when the process ends, behind whatever was made after it.
struct LateComputation {
  ~LateComputation() {
    try {
      if (doubled_on_jit(2).item<float>() != 4) std::_Exit(9);
    } catch (const Error&) {
    }
  }
};

/// How a process ends that runs this one's test case of that name, which does not come back.
std::string end_of(const std::string& name) {
  const TemporaryFolder folder;
  const std::string errors = (folder.path() / "stderr").string();
  const std::string command = "timeout 60 /proc/" + std::to_string(getpid()) + "/exe -ns -tc='" + name +
                              "' >/dev/null 2>" + errors + " </dev/null";
  const int status = std::system(command.c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return std::to_string(code) + " " + file_text(errors);
}

/// Ends in 0 and says nothing, again and again.
void check_ends(const std::string& name) {
  CAPTURE(name);
  const int times = std::getenv("LOCKSTEP_ALL_CASES") != nullptr ? 200 : 5;
  for (int i = 0; i < times; ++i) {
    CAPTURE(i);
    const std::string end = end_of(name);
    CHECK(end == "0 ");
    if (end != "0 ") return;
  }
}

}  // namespace

// Each of these ends the process.
TEST_SUITE("ends" * doctest::skip()) {
  TEST_CASE("end: a static loader with threads") {
    static data::SourceLoader loader(numbered_rows(100000), {.batch = 8, .seed = 1}, {.threads = 3, .ahead = 8});
    for (int i = 0; i < 3; ++i) static_cast<void>(loader.next());
    std::exit(0);
  }
  TEST_CASE("end: jit in a static destructor") {
    static LateComputation late;
    doubled_on_jit(1);
    std::exit(0);
  }
  TEST_CASE("end: jit in an early atexit handler") {
    std::atexit([] { LateComputation(); });
    doubled_on_jit(1);
    std::exit(0);
  }
  TEST_CASE("end: devices in an early atexit handler") {
    const auto on_four = [] {
      const Mesh mesh({{"batch", 4}}, devices("cpu:0-3"));
      return pmap([](const Array& x) { return x * 2; },
                  {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}})(ones({8}));
    };
    std::atexit([] {
      try {
        const Mesh mesh({{"batch", 4}}, devices("cpu:0-3"));
        pmap([](const Array& x) { return x * 3; },
             {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}})(ones({8}));
      } catch (const Error&) {
      }
    });
    on_four();
    std::exit(0);
  }
  TEST_CASE("end: a detached thread in a step") {
    static std::atomic<int> steps{0};
    std::thread([] {
      const Mesh mesh({{"batch", 2}}, devices("cpu:0-1"));
      const auto step = pmap(
          [](const Array& x) {
            return tanh(matmul(x, x)) +
                   random::uniform(random::key(3), {16, 16}, float32, 0.0, 1.0, random::same_on_all);
          },
          {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
      Array x = ones({32, 16});
      for (;; ++steps) x = step(x);
    }).detach();
    while (steps < 3) std::this_thread::yield();
    std::exit(0);
  }
  TEST_CASE("end: exit in a callback on four devices") {
    const Mesh mesh({{"batch", 4}}, devices("cpu:0-3"));
    const auto leaves = pmap(
        [](const Array& x) {
          const Array y = pure_callback(
              [](std::span<const Array> operands) {
                if (operands[0].to_vector<float>()[0] > 5) std::exit(0);
                return operands[0] + 1;
              },
              x.type(), {x});
          return tanh(matmul(y, y));
        },
        {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
    leaves(ones({16, 4}));
    leaves(reshape(arange(0.0F, 64.0F), {16, 4}));
  }
}

TEST_CASE("bad inputs 146: the end of a process at odd moments") {
  row(146, [] {
    check_ends("end: a static loader with threads");
    check_ends("end: jit in a static destructor");
    check_ends("end: jit in an early atexit handler");
    check_ends("end: devices in an early atexit handler");
    check_ends("end: a detached thread in a step");
    check_ends("end: exit in a callback on four devices");
  });
}

TEST_CASE("bad inputs 145: a debug sink that prints through itself") {
  row(145, [] {
    std::vector<std::string> lines;
    const auto printed = jit([](const Array& x) {
      debug_print("x is {}", x);
      return x + 1;
    });
    const Mesh mesh({{"batch", 2}}, devices("cpu:0-1"));
    const auto on_two = pmap(
        [](const Array& x) {
          debug_print("part {}", x);
          return x + 1;
        },
        {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
    set_debug_sink([&](std::string_view line) {
      lines.emplace_back(line);
      printed(ones({1}));
      on_two(ones({2}));
      set_debug_sink([&](std::string_view other) { lines.emplace_back("second: " + std::string(other)); });
    });
    printed(zeros({1}));
    printed(zeros({1}));
    set_debug_sink({});
    CHECK(lines == std::vector<std::string>{"x is [0.]", "second: x is [0.]"});
  });
}

}  // namespace lockstep::tests
