#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_processes.h"

namespace lockstep::tests {
namespace {

std::vector<std::byte> drawn(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<std::byte> values(bytes);
  for (std::byte& value : values) value = static_cast<std::byte>(bits());
  return values;
}

std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& blocks) {
  std::vector<std::byte> all;
  for (const auto& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

}  // namespace

TEST_CASE("collectives of any size move what they say, between 1 to 5 processes") {
  for (const int count : {1, 2, 3, 5}) {
    for (const std::size_t bytes : {0, 1, 64, 3967, 3968, 3969, 70000}) {
      CAPTURE(count);
      CAPTURE(bytes);
      std::vector<std::vector<std::byte>> blocks;
      for (int p = 0; p < count; ++p) blocks.push_back(drawn(bytes, static_cast<std::uint64_t>(p)));
      std::atomic<int> right = 0;
      run_processes(count, [&](const std::shared_ptr<Processes>& processes) {
        const auto rank = static_cast<std::size_t>(processes->rank());
        std::vector<std::byte> all(bytes * static_cast<std::size_t>(count));
        processes->all_gather(blocks[rank], all);
        if (all == joined(blocks)) ++right;
        std::vector<std::byte> own;  // to each process its block, marked by who sends it
        for (const auto& block : blocks) own.insert(own.end(), block.begin(), block.end());
        for (std::byte& byte : own) byte ^= static_cast<std::byte>(rank);
        processes->all_to_all(own, all);
        bool same = true;
        for (std::size_t p = 0; p < blocks.size(); ++p) {
          for (std::size_t i = 0; i < bytes; ++i) {
            same = same && all[p * bytes + i] == (blocks[rank][i] ^ static_cast<std::byte>(p));
          }
        }
        if (same) ++right;
        std::vector<std::byte> told = blocks[rank];
        processes->broadcast(told, count - 1);
        if (told == blocks.back()) ++right;
        processes->barrier();
        const auto texts = processes->all_gather_text(std::string(rank, 'x'));
        if (texts.size() == blocks.size() && texts[rank] == std::string(rank, 'x') && texts[0].empty()) ++right;
      });
      CHECK(right == 4 * count);
    }
  }
}

TEST_CASE("collectives that are begun go on beside others, and are over in their order") {
  for (const int count : {1, 2, 3, 5}) {
    for (const std::size_t bytes : {1, 3968, 70000}) {
      CAPTURE(count);
      CAPTURE(bytes);
      std::atomic<int> right = 0;
      run_processes(count, [&](const std::shared_ptr<Processes>& processes) {
        const auto all = static_cast<std::size_t>(count);
        const auto rank = static_cast<std::size_t>(processes->rank());
        std::mt19937_64 bits(rank);
        std::vector<std::vector<std::byte>> sent, received;
        std::vector<std::uint64_t> numbers;
        for (std::uint64_t i = 0; i < 6; ++i) {
          const std::size_t size = i % 2 == 0 ? bytes : 40;
          sent.push_back(drawn(i % 3 == 0 ? size : size * all, 10 * rank + i));
          received.emplace_back(size * all);
        }
        for (std::size_t i = 0; i < sent.size(); ++i) {
          numbers.push_back(i % 3 == 0 ? processes->start_all_gather(sent[i], received[i])
                                       : processes->start_all_to_all(sent[i], received[i]));
          processes->start_meet({"begun"}, 8);
          if (bits() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits() % 300));
          if (bits() % 2 == 0) processes->advance();
          if (i == 3) processes->barrier();
        }
        const std::size_t first = bits() % sent.size();
        processes->finish(numbers[first]);
        for (const std::uint64_t number : numbers) processes->finish(number);
        for (std::size_t i = 0; i < sent.size(); ++i) {
          std::vector<std::vector<std::byte>> blocks;
          for (std::size_t p = 0; p < all; ++p) {
            const std::size_t size = i % 2 == 0 ? bytes : 40;
            const std::vector<std::byte> theirs = drawn(i % 3 == 0 ? size : size * all, 10 * p + i);
            const auto at = static_cast<std::ptrdiff_t>(i % 3 == 0 ? 0 : rank * size);
            blocks.emplace_back(theirs.begin() + at, theirs.begin() + at + static_cast<std::ptrdiff_t>(size));
          }
          if (received[i] == joined(blocks)) ++right;
        }
        processes->barrier();
      });
      CHECK(right == 6 * count);
    }
  }
}

TEST_CASE("another collective, size, order or call is an error in all processes that says who is where") {
  using Body = std::function<void(Processes&)>;
  const auto gather = [](std::size_t bytes, DType dtype) {
    return [=](Processes& processes) {
      const std::vector<std::byte> sent(bytes);
      std::vector<std::byte> received(bytes * static_cast<std::size_t>(processes.size()));
      processes.all_gather(sent, received, {"all_gather", dtype});
    };
  };
  struct Case {
    Body most, last;
    std::vector<std::string> parts;
  };
  const auto call = [](std::uint64_t program) {
    return [=](Processes& processes) {
      processes.begin_call(program);
      processes.barrier();
      processes.end_call();
    };
  };
  const std::vector<Case> cases = {
      {gather(64, DType::float32),
       gather(64, DType::float64),
       {"all_gather of 64 bytes of float32", "all_gather of 64 bytes of float64", "in the same order"}},
      {gather(64, DType::float32), gather(5000, DType::float32), {"of 64 bytes", "of 5000 bytes"}},
      {gather(5000, DType::float32), [](Processes& p) { p.barrier(); }, {"collective 2, barrier"}},
      {call(17), call(18), {"in call 1 of program 0000000000000011", "in call 1 of program 0000000000000012"}},
      {call(17),
       [](Processes& p) { p.run_on_first("checkpoint::save of runs/1", [] {}); },
       {"checkpoint::save of runs/1", "call checkpoint::save in every process: process 0 alone writes"}},
  };
  for (const int count : {2, 4}) {
    for (const Case& c : cases) {
      CAPTURE(c.parts[0]);
      const auto texts = errors_of_processes(count, [&](const std::shared_ptr<Processes>& processes) {
        processes->barrier();
        (processes->rank() == count - 1 ? c.last : c.most)(*processes);
      });
      for (const std::string& text : texts) {
        CAPTURE(text);
        for (const std::string& part : c.parts) CHECK(contains(text, part));
        CHECK(contains(text, "process " + std::to_string(count - 1)));
        CHECK(contains(text, "the last events are in "));
      }
    }
  }
}

TEST_CASE(
    "a process that does not come is named within the limit; one that is at work is waited for while it is alive") {
  enum class Doing : std::uint8_t { nothing, stopped, work };
  const auto run = [](int milliseconds, Doing doing) {
    return errors_of_processes(
        3,
        [&](const std::shared_ptr<Processes>& processes) {
          processes->barrier();
          if (processes->rank() == 2) {
            std::optional<StoppedProcess> stopped;
            std::optional<AtWork> at_work;
            if (doing == Doing::stopped) stopped.emplace(2);
            if (doing == Doing::work) at_work.emplace(*processes);
            std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
          }
          processes->barrier();
        },
        [](int) { return ProcessOptions{.time_limit = 0.3}; });
  };
  for (const std::string& text : run(100, Doing::nothing)) CHECK(text == "");
  for (const std::string& text : run(900, Doing::work)) CHECK(text == "");
  struct Case {
    Doing doing;
    int milliseconds;
    std::string text;
  };
  for (const auto& [doing, milliseconds, text] :
       {Case{Doing::nothing, 900, "process 2 is alive, but did not come within 0.3 s to collective 2, barrier"},
        Case{Doing::stopped, 900, "process 2 did not come within 0.3 s to collective 2, barrier"},
        Case{Doing::work, 3500,
             "process 2 is alive and at work, but did not come within 3 s to collective 2, barrier"}}) {
    const std::vector<std::string> texts = run(milliseconds, doing);
    for (const std::size_t p : {0, 1}) {
      CAPTURE(texts[p]);
      CHECK(contains(texts[p], text));
      CHECK(contains(texts[p], "no sign of life") == (doing == Doing::stopped));
      CHECK(contains(texts[p], "LOCKSTEP_COLLECTIVE_TIMEOUT"));
    }
    CHECK(contains(texts[2], "failed: " + text));
  }
}

TEST_CASE("work of process 0 is waited for beyond the limit while it is alive; stopped within it, it is named") {
  for (const bool is_stopped : {false, true}) {
    const auto texts = errors_of_processes(
        3,
        [&](const std::shared_ptr<Processes>& processes) {
          processes->run_on_first("some work", [&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
            std::optional<StoppedProcess> stopped;
            if (is_stopped) stopped.emplace(0);
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
          });
        },
        [](int) { return ProcessOptions{.time_limit = 0.3}; });
    for (const std::size_t p : {1, 2}) {
      CAPTURE(texts[p]);
      CHECK(texts[p].empty() == !is_stopped);
      CHECK(contains(texts[p], "process 0 did not come within 0.3 s to collective 2, some work") == is_stopped);
    }
  }
}

namespace {

/// As MPI where the program has begun it.
class WithoutThread final : public ThreadCommunicator {
 public:
  using ThreadCommunicator::ThreadCommunicator;
  bool may_have_a_thread() const override { return false; }
};

}  // namespace

TEST_CASE("where the communicator may have no thread one that does not come is named within the limit, alive or not") {
  const auto mail = std::make_shared<ThreadMail>(2);
  Processes first(std::make_shared<WithoutThread>(mail, 0), {.time_limit = 0.3});
  std::thread other([&] {
    Processes last(std::make_shared<WithoutThread>(mail, 1), {.time_limit = 0.3});
    last.barrier();
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    last.barrier();
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    expect_error<CommunicatorError>([&] { last.barrier(); }, "process 0 failed: process 1 did not come");
  });
  first.barrier();
  first.set_time_limit(3);
  first.barrier();
  first.set_time_limit(0.3);
  expect_error<CommunicatorError>([&] { first.barrier(); }, "process 1 did not come within 0.3 s to collective 3");
  other.join();
}

TEST_CASE("who waits takes little processor time") {
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  run_processes(2, [&](const std::shared_ptr<Processes>& processes) {
    processes->barrier();
    if (processes->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const double before = used();
    processes->barrier();
    if (processes->rank() == 0) CHECK(used() - before < 0.05);
  });
}

TEST_CASE("a failure, and the end, of one process reach those that wait for it") {
  const auto texts = errors_of_processes(3, [](const std::shared_ptr<Processes>& processes) {
    processes->barrier();
    if (processes->rank() == 1) throw DataError("row 7 is bad");
    processes->barrier();
  });
  for (const std::size_t p : {0, 2}) CHECK(contains(texts[p], "process 1 failed: row 7 is bad (the last events are"));
  const auto ends = errors_of_processes(2, [](const std::shared_ptr<Processes>& processes) {
    for (int i = 0; i < 3 + processes->rank(); ++i) processes->barrier();
  });
  CHECK(ends[0] == "");
  CHECK(contains(ends[1],
                 "process 0 has ended after 3 collectives, and process 1 waits for it in collective 4, barrier"));
}

TEST_CASE("behind a failure nothing is communicated") {
  run_processes(2, [](const std::shared_ptr<Processes>& processes) {
    processes->fail("enough of " + std::to_string(processes->rank()));
    CHECK(processes->has_failed());
    expect_error<CommunicatorError>([&] { processes->barrier(); }, "failed after 0 collectives: enough of 0",
                                    "failed after 0 collectives: enough of 1", "at the same place");
    expect_error<CommunicatorError>([&] { processes->barrier(); }, "the processes have failed before", "enough of 0");
  });
}

TEST_CASE("the flight recorder has the last collectives and calls") {
  const TemporaryFolder folder;
  const auto into_folder = [&](int) { return ProcessOptions{.time_limit = 0.1, .flight_folder = folder.path()}; };
  const auto texts = errors_of_processes(
      2,
      [](const std::shared_ptr<Processes>& processes) {
        processes->begin_call(255);
        processes->barrier();
        processes->end_call();
        if (processes->rank() == 0) processes->barrier();
      },
      into_folder);
  const std::size_t at = texts[0].find(folder.path().string());
  REQUIRE(at != std::string::npos);
  const std::string file = file_text(texts[0].substr(at, texts[0].find(')', at) - at));
  CAPTURE(file);
  CHECK(contains(file, "call 1 of program 00000000000000ff begins"));
  CHECK(contains(file, "collective 1, barrier, in call 1 of program 00000000000000ff, took "));
  CHECK(contains(file, "the call ends"));
  CHECK(contains(file, "collective 2, barrier, has not ended"));
}

TEST_CASE("work of process 0: the others wait for it, see its error, and do none of it") {
  std::atomic<int> runs = 0;
  const auto texts = errors_of_processes(3, [&](const std::shared_ptr<Processes>& processes) {
    processes->run_on_first("some work", [&] { ++runs; });
    processes->run_on_first("other work", [&] { throw CheckpointError("the disk is full"); });
  });
  CHECK(runs == 1);
  CHECK(texts[0] == "the disk is full");
  CHECK(texts[1] == "process 0 failed: the disk is full");
}

TEST_CASE("wrong arguments and limits are refused") {
  run_processes(1, [](const std::shared_ptr<Processes>& processes) {
    std::array<std::byte, 3> three{};
    expect_error<CommunicatorError>([&] { processes->broadcast(three, 1); }, "broadcast from process 1 of 1");
    expect_error<CommunicatorError>([&] { processes->all_gather(three, {}); }, "room for 0 bytes, expected 3");
    expect_error<ValueError>([&] { processes->set_time_limit(0); }, "a time limit of 0 s", "positive");
  });
  run_processes(2, [](const std::shared_ptr<Processes>& processes) {
    std::array<std::byte, 3> three{};
    expect_error<CommunicatorError>([&] { processes->all_to_all(three, three); }, "a block of equal size");
  });
}

}  // namespace lockstep::tests
