#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/thread_processes.h"

// Processes that fail and whose programs catch the error: where all fail alike they go on, else all end.
namespace lockstep::tests {
namespace {

using Group = std::shared_ptr<Processes>;

void sleep_milliseconds(int time) { std::this_thread::sleep_for(std::chrono::milliseconds(time)); }

/// What a process says of the collective that follows on failures it has caught; nothing where it goes well.
std::string next_collective(const Group& processes) {
  try {
    processes->barrier();
  } catch (const CommunicatorError& error) {
    return error.what();
  }
  return {};
}

ProcessOptions short_limit(int /*process*/) { return {.time_limit = 0.4}; }

}  // namespace

TEST_CASE("where all processes fail alike they go on, as often as they do") {
  for (const int count : {2, 3, 5}) {
    CAPTURE(count);
    std::atomic<int> went_on = 0;
    const int abandoned = run_processes(count, [&](const Group& processes) {
      for (int i = 0; i < 20; ++i) {
        if ((i + processes->rank()) % 3 == 0) sleep_milliseconds(3);  // now one is ahead, now another
        processes->barrier();
        for (int k = 0; k < i % 4; ++k) processes->fail("the loss is NaN in step " + std::to_string(i));
        if (i % 4 == 3) processes->fail("and another one");
      }
      if (next_collective(processes).empty() && !processes->has_failed()) ++went_on;
      processes->fail("at the very end");
    });
    CHECK(went_on == count);
    CHECK(abandoned == 0);
  }
}

TEST_CASE("a failure behind a collective that others have not finished does not disturb it") {
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> right = 0;
    run_processes(3, [&](const Group& processes) {
      std::vector<std::byte> all(3 * 70000);
      const std::vector<std::byte> own(70000, static_cast<std::byte>(processes->rank()));
      processes->all_gather(own, all);
      processes->fail("the loss is NaN");
      processes->all_gather(own, all);
      if (all.back() == std::byte{2}) ++right;
    });
    CHECK(right == 3);
  }
}

namespace {

/// A call that begins so many gathers, throws and is caught: what the next collective says.
std::string next_behind_call(const Group& processes, int begun, const std::string& text = "the loss is NaN") {
  std::vector<std::vector<std::byte>> received;
  const std::vector<std::byte> own(70000, static_cast<std::byte>(processes->rank()));
  processes->begin_call(1);
  for (int i = 0; i < begun; ++i) {
    received.emplace_back(own.size() * static_cast<std::size_t>(processes->size()));
    processes->start_all_gather(own, received.back());
  }
  processes->fail(text);
  processes->end_call();
  std::string error = next_collective(processes);
  // What had begun is over, so that its memory may be used again.
  for (const auto& bytes : received) {
    if (error.empty() && bytes.back() != static_cast<std::byte>(processes->size() - 1)) error = "not over";
  }
  return error;
}

}  // namespace

TEST_CASE("where all fail alike with collectives under way these are over first") {
  for (const int count : {2, 3}) {
    CAPTURE(count);
    std::atomic<int> went_on = 0;
    run_processes(count, [&](const Group& processes) {
      for (int i = 0; i < 20; ++i) {
        if ((i + processes->rank()) % 3 == 0) sleep_milliseconds(3);
        if (next_behind_call(processes, i % 4).empty()) ++went_on;
      }
    });
    CHECK(went_on == 20 * count);
  }
}

TEST_CASE("who fails before others have begun as much, or begins and does not come back, is named within the limit") {
  std::vector<std::string> said(2);
  run_processes(
      2,
      [&](const Group& processes) {
        const auto rank = static_cast<std::size_t>(processes->rank());
        said[rank] = next_behind_call(processes, 1 + processes->rank());
      },
      short_limit);
  CHECK(contains(said[0] + said[1], "process 1"));
  for (const std::string& text : said) CHECK_FALSE(text.empty());
  const std::vector<std::string> late = errors_of_processes(
      2,
      [](const Group& processes) {
        const std::uint64_t number = processes->start_meet({"fold: parts in windows"}, 8);
        if (processes->rank() == 1) sleep_milliseconds(900);
        processes->finish(number);
        processes->finish(processes->start_meet({"fold: parts in windows"}, 8));
      },
      short_limit);
  CHECK(contains(
      late[0], "process 1 is alive, but did not come within 0.4 s to collective 2, fold: parts in windows of 8 bytes"));
  const std::vector<std::string> other = errors_of_processes(2, [](const Group& processes) {
    const std::uint64_t number = processes->start_meet({"fold: parts in windows"}, 8);
    processes->start_meet({processes->rank() == 0 ? "one" : "another"}, 8);
    processes->barrier();
    processes->finish(number);
  });
  for (const std::string& text : other) {
    CHECK(contains(text, "process 0 is in collective 2, one of 8 bytes"));
    CHECK(contains(text, "process 1 in collective 2, another of 8 bytes"));
  }
}

TEST_CASE("a failure of one process, with another text or elsewhere ends all") {
  struct Case {
    std::string what;
    std::function<void(const Group&)> fail;
    std::string first, last;  ///< What process 0 and process 2 say of the next collective.
  };
  // Of two that did not fail likewise either is named.
  const std::vector<Case> cases = {
      {"one alone",
       [](const Group& p) {
         if (p->rank() == 2) p->fail("row 7 is bad");
       },
       "process 2 failed: row 7 is bad", "barrier: process 2 failed after 1 collectives: row 7 is bad; and process "},
      {"another text", [](const Group& p) { p->fail(p->rank() == 2 ? "row 7 is bad" : "row 8 is bad"); },
       "process 0 failed after 1 collectives: row 8 is bad; and process 2 failed after 1 collectives: row 7 is bad",
       "barrier: process 2 failed after 1 collectives: row 7 is bad; and process "},
      {"one twice, the others once",
       [](const Group& p) {
         p->fail("row 7 is bad");
         if (p->rank() == 2) p->fail("row 8 is bad");
       },
       "process 2 failed: row 8 is bad", "barrier: process 2 failed after 1 collectives: row 7 is bad; and process "},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    std::vector<std::string> texts(3);
    const int abandoned = run_processes(
        3,
        [&](const Group& processes) {
          processes->barrier();
          c.fail(processes);
          texts[static_cast<std::size_t>(processes->rank())] = next_collective(processes);
          CHECK(contains(next_collective(processes), "the processes have failed before"));
        },
        short_limit);
    CAPTURE(texts[0]);
    CAPTURE(texts[2]);
    CHECK(contains(texts[0], c.first));
    CHECK(contains(texts[2], c.last));
    CHECK(contains(texts[2], "after an error go on only where all processes catch the same one at the same place"));
    CHECK(abandoned == 3);
  }
}

TEST_CASE("who failed at another collective, or never says so, is named within the limit") {
  std::vector<std::string> texts(2);
  run_processes(
      2,
      [&](const Group& processes) {
        processes->barrier();
        if (processes->rank() == 0) processes->fail("row 7 is bad");
        if (processes->rank() == 1) {
          texts[1] = next_collective(processes);
          processes->fail("row 7 is bad");
        } else {
          texts[0] = next_collective(processes);
        }
      },
      short_limit);
  CHECK(contains(texts[1], "process 0 failed: row 7 is bad"));
  CHECK(contains(texts[0], "process 0 failed after 1 collectives: row 7 is bad; and process 1 did not; "));
  run_processes(
      2,
      [&](const Group& processes) {
        processes->barrier();
        if (processes->rank() == 0) processes->fail("row 7 is bad");
        if (processes->rank() == 1) sleep_milliseconds(800);
        texts[static_cast<std::size_t>(processes->rank())] = next_collective(processes);
      },
      short_limit);
  CHECK(contains(texts[0], "and process 1 did not within 0.4 s; "));
  CHECK(contains(texts[1], "process 0 failed: row 7 is bad"));
}

TEST_CASE("what another thread throws ends the collective that this one waits in") {
  const auto texts = errors_of_processes(
      2,
      [](const Group& processes) {
        processes->barrier();
        if (processes->rank() == 1) return sleep_milliseconds(200);
        std::thread loader([&] {
          sleep_milliseconds(50);
          processes->fail("row 7 is bad");
        });
        try {
          processes->barrier();
        } catch (const CommunicatorError&) {
          loader.join();
          throw;
        }
      },
      [](int) { return ProcessOptions(); });
  CHECK(contains(texts[0], "this process has failed: row 7 is bad"));
}

TEST_CASE("an error that nobody told is nobody's: the next collective goes on") {
  const auto texts = errors_of_processes(3, [](const Group& processes) {
    processes->barrier();
    try {
      if (processes->rank() == 1) throw DataError("row 7 is bad");
    } catch (const DataError&) {  // this program's own business
    }
    processes->barrier();
  });
  for (const std::string& text : texts) CHECK(text == "");
}

TEST_CASE("who has ended well waits for those that still work, longer than the time limit") {
  for (const bool ends_well : {true, false}) {
    CAPTURE(ends_well);
    const int abandoned = run_processes(
        3,
        [&](const Group& processes) {
          processes->barrier();
          if (processes->rank() != 2) return;
          sleep_milliseconds(300);
          if (!ends_well) processes->fail("the disk is full");
        },
        [](int) { return ProcessOptions{.time_limit = 0.1}; });
    CHECK(abandoned == (ends_well ? 0 : 3));
  }
}

}  // namespace lockstep::tests
