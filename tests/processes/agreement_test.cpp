#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/expect_error.h"
#include "tests/support/thread_processes.h"

namespace lockstep::tests {
namespace {

/// What each process says of entries of which those of process `last` differ.
std::vector<std::string> compared(int count, const ProcessEntries& most, const ProcessEntries& last) {
  return errors_of_processes(count, [&](const std::shared_ptr<Processes>& processes) {
    processes->expect_same("the test", processes->rank() == count - 1 ? last : most);
    processes->barrier();
  });
}

}  // namespace

TEST_CASE("equal entries pass, and the first that differs is named with its values and processes, in all processes") {
  const ProcessEntries most = {{"seed", "1"}, {"rate", "0.1"}, {"text", "a\nb\nc"}};
  for (const std::string& text : compared(3, most, most)) CHECK(text == "");
  struct Case {
    ProcessEntries last;
    std::string part;
  };
  const std::vector<Case> cases = {
      {{{"seed", "1"}, {"rate", "0.2"}, {"text", "a"}},
       "the test: rate is '0.1' in processes 0, 1, '0.2' in process 2; start all processes with the same one"},
      {{{"rate", "0.1"}, {"text", "a\nb\nc"}}, "seed is '1' in processes 0, 1, absent in process 2"},
      {{{"seed", "1"}, {"rate", "0.1"}, {"text", "a\nb\nd"}},
       "text is 'c' in line 3 in processes 0, 1, 'd' in line 3 in process 2"},
      {{{"seed", "1"}, {"rate", "0.1"}, {"text", "a\nb"}}, "'nothing' in line 3 in process 2"},
      {{{"seed", "1"}, {"rate", "0.1"}, {"text", "a\nb\nc"}, {"more", ""}}, "more is absent in processes 0, 1, '' in"},
      {{{"rate", "0.1"}, {"seed", "1"}, {"text", "a\nb\nc"}}, "the same entries stand in another order"},
  };
  for (const Case& c : cases) {
    for (const std::string& text : compared(3, most, c.last)) {
      CAPTURE(text);
      CHECK(contains(text, c.part));
    }
  }
}

}  // namespace lockstep::tests
